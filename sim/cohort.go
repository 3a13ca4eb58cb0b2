package sim

import "time"

// cohort holds the sequences of a replica that decode in lockstep: every step
// gives each of them one position and one token. While they do, no sequence is
// touched. The cohort counts its steps, and a member's context, tokens and
// blocks follow from the step at which it joined:
//
//	context(s) = s.computed  + planned − s.member.from
//	tokens(s)  = s.generated + ended   − s.member.from
//
// so that a step costs the same for 8 members and for 1024.
type cohort struct {
	n       int
	context int   // Σ context of the members
	planned int64 // decode steps planned; equal to ended while no step is in flight
	ended   int64 // decode steps ended

	// crossing[(phase+k) mod block] members need a new KV block k decode
	// steps from now; phase = planned mod block.
	crossing []int
	phase    int

	hashed [][]*Sequence // hashed members, by the phase at which a block of tokens is full and the next begins; nil without prefix cache
	listed int           // number of those

	due     [dueBuckets]*Sequence // members by the step at which something happens to them, mod dueBuckets
	joiners []*Sequence           // members that have not had a token as members; nil where one left

	// settled counts, by class, the members that are not joiners: all of them
	// got their last token at prev. overs counts, by class, the steps whose
	// gap for settled members was over the class target.
	settled []int
	overs   []int64
	prev    Time
	// decodeTime and interference are the time of the steps that ended, without
	// and through the chunks beside the decodes.
	decodeTime, interference time.Duration

	log *stepLog // nil unless token times are kept
}

// dueBuckets is the size of the wheel of due steps. Members due in a later
// turn share a bucket, so a step looks at n/dueBuckets of those on average.
const dueBuckets = 4096

// memberLinks is the part of a sequence that belongs to its cohort.
type memberLinks struct {
	in         bool
	crosses    bool  // counted in crossing
	phase      int32 // where, if so
	joiner     int32 // index in joiners, or -1
	from       int64 // planned when it joined
	due        int64 // ended at which to look at it; 0 for never
	finish     int64 // ended at which it has all its tokens; 0 for never
	list, spot int32 // phase and index in hashed, if it is hashed
	oversBase  int64 // overs of its class when it settled
	prev, next *Sequence
}

func (c *cohort) init(blockTokens, classes int, log, hashes bool) {
	c.crossing = make([]int, blockTokens)
	c.settled = make([]int, classes)
	c.overs = make([]int64, classes)
	if hashes {
		c.hashed = make([][]*Sequence, blockTokens)
	}
	if log {
		c.log = &stepLog{}
	}
}

// join adds s, whose Pending is 1, in front of the next decode step. Blocks
// for the position of that step may be among those it owns already.
func (c *cohort) join(s *Sequence) {
	m := &s.member
	*m = memberLinks{in: true, from: c.planned, joiner: int32(len(c.joiners))}
	c.joiners = append(c.joiners, s)
	c.n++
	c.context += s.computed
	if k := s.clerk; k != nil {
		k.decode, k.interference = c.decodeTime, c.interference
	}

	if s.hashed {
		c.list(s)
	}
	left := s.output - s.generated
	if s.output != unbounded {
		m.finish = c.planned + int64(left)
		m.due = m.finish
	}
	room := s.blocks*len(c.crossing) - s.computed
	switch {
	case s.output != unbounded && room >= left:
		// Its blocks last to its end.
	case room < len(c.crossing):
		c.cross(s, room)
	default:
		m.due = c.planned + int64(room)
	}
	if m.due > 0 {
		c.schedule(s)
	}
}

// list puts a hashed member where its blocks fill up.
func (c *cohort) list(s *Sequence) {
	n := len(c.hashed)
	phase := (c.phase + (n-s.computed%n)%n) % n
	s.member.list, s.member.spot = int32(phase), int32(len(c.hashed[phase]))
	c.hashed[phase] = append(c.hashed[phase], s)
	c.listed++
}

// fills reports whether the next decode step completes a block of a hashed
// member.
func (c *cohort) fills() bool {
	return c.listed > 0 && len(c.hashed[(c.phase+1)%len(c.hashed)]) > 0
}

func (c *cohort) unlist(s *Sequence) {
	l := c.hashed[s.member.list]
	last := l[len(l)-1]
	l[s.member.spot] = last
	last.member.spot = s.member.spot
	c.hashed[s.member.list] = l[:len(l)-1]
	c.listed--
}

// cross lets s need a new block after room more decode steps, and after every
// block of tokens from there on.
func (c *cohort) cross(s *Sequence, room int) {
	s.member.crosses = true
	s.member.phase = int32((c.phase + room) % len(c.crossing))
	c.crossing[s.member.phase]++
}

// crossesNow reports whether the next decode step takes s into a new block.
func (c *cohort) crossesNow(s *Sequence) bool {
	return s.member.crosses && int(s.member.phase) == c.phase
}

// leave takes s out and leaves its progress in the sequence itself.
func (c *cohort) leave(s *Sequence) {
	m := &s.member
	if s.clerk != nil {
		s.home.lookAtSteps(s)
	}
	if c.log != nil {
		s.times = c.log.appendFrom(s.times, m.from, c.ended)
	}
	if m.joiner >= 0 {
		c.joiners[m.joiner] = nil
	} else {
		c.settled[s.req.Class]--
		s.gapsOver += int32(c.overs[s.req.Class] - m.oversBase)
		s.lastToken = c.prev
	}
	if c.ended > m.from {
		s.evictions = 0
	}
	if m.crosses {
		c.crossing[m.phase]--
	}
	if m.due > 0 {
		c.unschedule(s)
	}
	if s.hashed {
		c.unlist(s)
	}
	s.blocks = s.Blocks()
	s.generated, s.computed = s.Generated(), s.Context()
	c.n--
	c.context -= s.computed
	*m = memberLinks{}
}

// plan gives every member one position.
func (c *cohort) plan() {
	c.planned++
	c.context += c.n
	c.phase++
	if c.phase == len(c.crossing) {
		c.phase = 0
	}
}

// settle makes s, which just had its first token as a member, one of those
// who got it at prev.
func (c *cohort) settle(s *Sequence) {
	s.member.joiner = -1
	s.member.oversBase = c.overs[s.req.Class]
	c.settled[s.req.Class]++
}

func (c *cohort) schedule(s *Sequence) {
	head := &c.due[s.member.due%dueBuckets]
	s.member.prev, s.member.next = nil, *head
	if *head != nil {
		(*head).member.prev = s
	}
	*head = s
}

func (c *cohort) unschedule(s *Sequence) {
	m := &s.member
	if m.prev == nil {
		c.due[m.due%dueBuckets] = m.next
	} else {
		m.prev.member.next = m.next
	}
	if m.next != nil {
		m.next.member.prev = m.prev
	}
	m.prev, m.next = nil, nil
}

// appendDue appends the members that have all their tokens now, in no order,
// and lets those cross whose reserved blocks are used up.
func (c *cohort) appendDue(dst []*Sequence) []*Sequence {
	for s := c.due[c.ended%dueBuckets]; s != nil; {
		next := s.member.next
		if m := &s.member; m.due == c.ended {
			if m.due == m.finish {
				dst = append(dst, s)
			} else {
				c.unschedule(s)
				c.cross(s, 0)
				if m.due = m.finish; m.due > 0 {
					c.schedule(s)
				}
			}
		}
		s = next
	}
	return dst
}

// stepLog keeps the ends of decode steps that a member may still ask for.
type stepLog struct {
	base int64 // number of the first step kept
	ends []Time
}

// add appends the end of the next step. When the log is full it forgets the
// steps before oldest, so that a step costs O(1) on average.
func (l *stepLog) add(end Time, oldest func() int64) {
	if len(l.ends) == cap(l.ends) && len(l.ends) > 0 {
		drop := min(oldest()-l.base, int64(len(l.ends)))
		kept := copy(l.ends, l.ends[drop:])
		l.ends = l.ends[:kept]
		l.base += drop
		if kept > cap(l.ends)/2 {
			l.ends = append(make([]Time, 0, 2*cap(l.ends)), l.ends...)
		}
	}
	l.ends = append(l.ends, end)
}

// appendFrom appends the ends of steps from..to-1.
func (l *stepLog) appendFrom(dst []Time, from, to int64) []Time {
	if from >= to {
		return dst
	}
	return append(dst, l.ends[from-l.base:to-l.base]...)
}
