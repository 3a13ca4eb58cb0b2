package sim

import "fmt"

// Drafter says which draft tokens are right: how many of the drafts that
// follow token number index of the request the model confirms. It must be a
// pure function, so that compared runs see the same answers.
//
// A replica with Drafts proposes that many tokens for each sequence after each
// of its tokens. A step that gives a sequence 1 + k positions checks k of
// them; the confirmed ones and one more token come at its end, all at one
// instant: the first of them ends a gap, the others have gaps of zero. The
// positions of rejected drafts are computed again; their KV blocks stay.
//
// The drafts of a step cost what the cost model makes of Batch.Samples and the
// number it was made for. Sequences with drafts do not move in lockstep: a step
// costs O(sequences).
type Drafter interface {
	Accept(q Query, index, drafts int) int
}

// DrafterFunc adapts a function to Drafter.
type DrafterFunc func(q Query, index, drafts int) int

// Accept calls f.
func (f DrafterFunc) Accept(q Query, index, drafts int) int { return f(q, index, drafts) }

// Drafts returns the draft tokens that the next step can check beside the
// pending position, 0 while the prompt is not computed.
func (s *Sequence) Drafts() int { return int(s.drafts) }

// byRow reports whether decodes are rows of their own: because drafts make
// them uneven, because requests leave with their first token, or because
// several steps are in flight.
func (st *Stepper) byRow() bool {
	return st.cfg.Drafts > 0 || st.cfg.Role == RolePrefill || len(st.ring) > 1
}

// propose gives s the drafts for its next step, as many as its length allows.
func (st *Stepper) propose(s *Sequence, drafts int) {
	room := st.limits.MaxModelLen - s.req.Prompt - s.generated - 1
	s.drafts = int32(max(0, min(drafts, room)))
}

// commitRow puts a decode with its drafts into the step.
func (st *Stepper) commitRow(s *Sequence, tokens int) {
	f := st.step
	if !st.parked.contains(s) {
		st.parked.pushBack(s)
	}
	f.rows = append(f.rows, assignment{s: s, serial: s.serial, tokens: tokens})
	f.batch.Decodes++
	f.batch.Positions += tokens
	f.batch.Context += s.computed
	s.computed += tokens
	if len(st.ring) > 1 {
		st.depart(&f.rows[len(f.rows)-1])
	}
}

// endRows gives every row its tokens.
func (st *Stepper) endRows() (tokens int) {
	for i := range st.step.rows {
		a := &st.step.rows[i]
		st.hub.result.DecodePositions += int64(a.tokens)
		if len(st.ring) > 1 {
			tokens += st.arrive(a)
			continue
		}
		if a.s.serial == a.serial && a.s.state == Running {
			if st.cfg.Role == RolePrefill {
				tokens += st.endPrompt(a.s)
				continue
			}
			tokens += st.endRow(a.s, a.tokens, 1+st.accepted(a.s, a.tokens-1), 0)
			st.propose(a.s, st.cfg.Drafts)
		}
	}
	return tokens
}

// accepted asks the drafter.
func (st *Stepper) accepted(s *Sequence, drafts int) int {
	if drafts == 0 {
		return 0
	}
	n := st.cfg.Drafter.Accept(s.req.query(), s.generated, drafts)
	if n < 0 || n > drafts {
		st.hub.fail(fmt.Errorf("sim: replica %d: Drafter accepts %d of %d drafts of request %d", st.index, n, drafts, s.req.ID))
		return 0
	}
	return n
}

// endRow gives s the sampled tokens, as far as its length allows, and takes
// the other positions back. The model confirmed the dropped ones too.
func (st *Stepper) endRow(s *Sequence, positions, sampled, dropped int) (tokens int) {
	tokens = min(sampled, s.output-s.generated)
	st.hub.result.Drafted += int64(positions - 1)
	st.hub.result.Accepted += int64(tokens - 1)
	st.speculation.add(positions-1, sampled-1+dropped)
	s.computed -= positions - tokens
	for i := range tokens {
		if i == 0 {
			st.sampleAlone(s)
		} else {
			st.sampleMore(s)
		}
	}
	if s.generated >= s.output {
		st.finished(s)
	}
	return tokens
}

func (n *Speculation) reset(drafts int) {
	*n = Speculation{PerPosition: n.PerPosition[:0]}
	for range drafts {
		n.PerPosition = append(n.PerPosition, 0)
	}
}

func (n *Speculation) add(drafted, accepted int) {
	if drafted > 0 {
		n.Sequences++
	}
	n.Drafted += drafted
	n.Accepted += accepted
	for i := range accepted {
		n.PerPosition[i]++
	}
}

// sampleMore gives a further token of the same step to s.
func (st *Stepper) sampleMore(s *Sequence) {
	s.generated++
	if st.cohort.log != nil {
		s.times = append(s.times, st.hub.now)
	}
	st.addGap(st.hub.now, s.req.Class)
}

// finished notes that s has all its tokens.
func (st *Stepper) finished(s *Sequence) {
	if s.touch == 0 {
		st.ended = append(st.ended, s)
	}
	s.touch |= touchFinish
}
