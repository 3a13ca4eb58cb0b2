package sim_test

import (
	"fmt"
	"math"
	"slices"
	"time"

	"servesim/sim"
)

// refPass is the plan of the reference engine.
type refPass struct {
	e        *refEngine
	r        *refReplica
	left     int
	slow     float64
	why      sim.Refusal
	order    []*refSeq
	changes  []refChange
	padRows  int
	padTo    int
	reserved []*refSeq
}

type refChange struct {
	kind   sim.Kind
	s      *refSeq
	reason string
	undone bool
}

// planner is what a policy of the tests may do. Both engines implement it;
// sequences are named by their serial number.
type planner interface {
	waiting() []int64
	running() []int64
	pending(id int64) int
	generated(id int64) int
	drafts(id int64) int
	maxOutput(id int64) (prompt, maxOutput int)
	room() int
	refusal() sim.Refusal
	limits() (maxBatchTokens, maxModelLen, blocks, blockTokens int)
	isRunning(id int64) bool
	add(id int64, tokens int) bool
	addDecodes() bool
	preempt(id int64)
	reserve(id int64, tokens int) bool
	retain(id int64)
	release()
	pad(rows, promptTokens int)
	reject(id int64, reason string)
}

// policy is a scheduler for both engines. pass counts the passes from 1.
type policy func(p planner, pass int)

func (p *refPass) find(id int64) *refSeq {
	for _, s := range p.e.live {
		if s.serial == id {
			return s
		}
	}
	panic(fmt.Sprintf("no sequence %d", id))
}

func serials(list []*refSeq) (out []int64) {
	for _, s := range list {
		out = append(out, s.serial)
	}
	return out
}

func (p *refPass) waiting() []int64     { return serials(p.r.waiting) }
func (p *refPass) running() []int64     { return serials(p.r.running) }
func (p *refPass) pending(id int64) int { return p.find(id).pending() }
func (p *refPass) generated(id int64) int {
	return p.find(id).generated
}
func (p *refPass) drafts(id int64) int  { return p.find(id).drafts }
func (p *refPass) room() int            { return p.left }
func (p *refPass) refusal() sim.Refusal { return p.why }
func (p *refPass) isRunning(id int64) bool {
	return p.find(id).state == sim.Running
}
func (p *refPass) maxOutput(id int64) (int, int) {
	s := p.find(id)
	return s.req.Prompt, s.req.MaxOutput
}
func (p *refPass) limits() (int, int, int, int) {
	c := p.r.cfg
	return c.MaxBatchTokens, c.MaxModelLen, c.KVBlocks - c.ReservedBlocks, c.BlockTokens
}

func (p *refPass) need(s *refSeq, tokens int) int {
	if s.cache != nil {
		return s.cache.Need(&s.table, s.have()+tokens, 0)
	}
	return max(0, refBlocks(s.computed+tokens, p.r.cfg.BlockTokens)-s.blocks)
}

func (p *refPass) refuse(why sim.Refusal) bool {
	p.why = why
	return false
}

func (p *refPass) add(id int64, tokens int) bool {
	s, r := p.find(id), p.r
	if s.state != sim.Running && r.cfg.MaxSeqs > 0 && len(r.running) >= r.cfg.MaxSeqs {
		return p.refuse(sim.RefusedSlots)
	}
	if tokens > p.left {
		return p.refuse(sim.RefusedTokens)
	}
	have, n := s.have(), p.need(s, tokens)
	if n > r.free() || r.cfg.Growth == sim.TouchedGrowth && s.state == sim.Running && s.pending() == 1 && r.free() < 1 {
		return p.refuse(sim.RefusedMemory)
	}
	r.grow(s, tokens, n)
	if s.state != sim.Running {
		s.computed, s.cached = have, have
	}
	s.taken, s.tokens = n, tokens
	p.left -= tokens
	p.order = append(p.order, s)
	if s.state != sim.Running {
		r.waiting = slices.DeleteFunc(r.waiting, func(o *refSeq) bool { return o == s })
		s.from, s.state, s.admitted = s.state, sim.Running, true
		r.ranks++
		s.rank = r.ranks
		r.running = append(r.running, s)
		p.changes = append(p.changes, refChange{kind: sim.Admit, s: s})
	}
	return true
}

func (p *refPass) addDecodes() bool {
	rows := 0
	var decodes []*refSeq
	for _, s := range p.r.running {
		if s.pending() == 1 && s.tokens == 0 {
			rows += 1 + s.drafts
			decodes = append(decodes, s)
		}
	}
	if rows > p.left {
		return p.refuse(sim.RefusedTokens)
	}
	free := p.r.free()
	for _, s := range decodes {
		n := p.need(s, 1+s.drafts)
		if n > free || p.r.cfg.Growth == sim.TouchedGrowth && free < 1 {
			return p.refuse(sim.RefusedMemory)
		}
		free -= n
	}
	for _, s := range decodes {
		p.add(s.serial, 1+s.drafts)
	}
	return true
}

func (p *refPass) preempt(id int64) {
	s, r := p.find(id), p.r
	if s.tokens > 0 && s.cache != nil {
		s.cache.Unregister(&s.table, s.computed)
	}
	p.left += s.tokens
	s.tokens, s.taken, s.drafts = 0, 0, 0
	p.order = slices.DeleteFunc(p.order, func(o *refSeq) bool { return o == s })
	s.keep = false
	r.drop(s)
	s.computed = 0
	if s.admitted {
		for i := range p.changes {
			if p.changes[i].s == s && p.changes[i].kind == sim.Admit {
				p.changes[i].undone = true
			}
		}
		s.admitted, s.state = false, s.from
	} else {
		s.state = sim.Preempted
		s.preempted++
		if s.evictions++; s.evictions > 1000 {
			p.e.gaveUp = true
		}
		p.changes = append(p.changes, refChange{kind: sim.Preempt, s: s})
	}
	least := refBlocks(s.req.Prompt+s.generated, r.cfg.BlockTokens)
	if r.cfg.Growth == sim.TouchedGrowth && r.free() == r.usable {
		least++
	}
	if least > r.usable {
		p.changes = append(p.changes, refChange{kind: sim.Reject, s: s, reason: sim.RejectOutOfKV})
		return
	}
	r.enqueue(s, true)
}

func (p *refPass) reserve(id int64, tokens int) bool {
	s := p.find(id)
	if s.state != sim.Running && p.r.cfg.MaxSeqs > 0 && len(p.r.running) >= p.r.cfg.MaxSeqs {
		return p.refuse(sim.RefusedSlots)
	}
	n := p.need(s, tokens)
	if n > p.r.free() {
		return p.refuse(sim.RefusedMemory)
	}
	if s.cache != nil {
		have := s.have()
		s.cache.Allocate(&s.table, s.known(), have, tokens)
		s.computed, s.blocks = have, s.table.Len()
	} else {
		p.r.take(n)
		s.blocks += n
	}
	p.reserved = append(p.reserved, s)
	return true
}

func (p *refPass) retain(id int64) { p.find(id).keep = true }

func (p *refPass) release() {
	p.r.take(-p.r.retained)
	p.r.retained = 0
	for _, t := range p.r.tables {
		p.r.cache.FreeTable(t)
	}
	p.r.tables = nil
}

func (p *refPass) pad(rows, promptTokens int) { p.padRows, p.padTo = rows, promptTokens }

func (p *refPass) reject(id int64, reason string) {
	s := p.find(id)
	p.r.waiting = slices.DeleteFunc(p.r.waiting, func(o *refSeq) bool { return o == s })
	p.changes = append(p.changes, refChange{kind: sim.Reject, s: s, reason: reason})
}

// commit tells what happened and puts the step in flight.
func (p *refPass) commit() (changed bool) {
	e, r := p.e, p.r
	for _, s := range p.reserved {
		if s.state != sim.Running {
			if s.cache != nil {
				s.cache.FreeTable(&s.table)
			} else {
				r.take(-s.blocks)
			}
			s.blocks, s.computed = 0, 0
		}
	}
	for _, c := range p.changes {
		changed = changed || !c.undone
		switch {
		case c.undone:
		case c.kind == sim.Reject:
			e.finish(c.s, sim.Reject, c.reason)
		default:
			if c.kind == sim.Admit && c.s.timeline.Admitted < 0 {
				c.s.timeline.Admitted = e.now
			}
			e.emit(c.s, c.kind, "")
		}
	}
	r.batch = sim.Batch{}
	r.inStep = nil
	for _, s := range p.order {
		if s.pending() == 1 {
			r.batch.Decodes++
			r.batch.Positions += s.tokens
			s.row = s.tokens
			r.batch.Context += s.computed
		} else {
			r.batch.Prefills = append(r.batch.Prefills, sim.Chunk{Tokens: s.tokens, Context: s.computed, Last: s.tokens == s.pending()})
		}
		s.chunk = s.pending() > 1
		s.computed += s.tokens
		s.tokens, s.admitted = 0, false
		r.inStep = append(r.inStep, s)
	}
	if r.batch.Empty() {
		return changed
	}
	r.batch.Padding = sim.Padding{Rows: max(0, p.padRows-r.batch.Decodes), PromptTokens: p.padTo}
	r.took = max(1, time.Duration(math.Round(p.slow*float64(r.cfg.CostModel.StepTime(r.batch)))))
	r.end = e.now.Add(r.took)
	r.busy = true
	r.nFree, r.nWait, r.nRun = r.free(), len(r.waiting), len(r.running)
	e.push(refPending{at: r.end, kind: 0, replica: r.index})
	return changed
}

// bridge runs a policy on the engine under test.
type bridge struct {
	policy policy
	passes int
}

func (b *bridge) Schedule(v sim.View, p *sim.Plan) {
	b.passes++
	q := &bridged{v: v, p: p, seqs: map[int64]*sim.Sequence{}}
	for _, l := range []sim.List{v.Waiting, v.Running} {
		for s := range l.All() {
			q.seqs[s.Serial()] = s
		}
	}
	b.policy(q, b.passes)
}

// bridged is a planner over a sim.Plan.
type bridged struct {
	v    sim.View
	p    *sim.Plan
	seqs map[int64]*sim.Sequence
}

func listed(l sim.List) (out []int64) {
	for s := range l.All() {
		out = append(out, s.Serial())
	}
	return out
}

func (b *bridged) waiting() []int64                  { return listed(b.v.Waiting) }
func (b *bridged) running() []int64                  { return listed(b.v.Running) }
func (b *bridged) pending(id int64) int              { return b.seqs[id].Pending() }
func (b *bridged) generated(id int64) int            { return b.seqs[id].Generated() }
func (b *bridged) drafts(id int64) int               { return b.seqs[id].Drafts() }
func (b *bridged) room() int                         { return b.p.Room() }
func (b *bridged) refusal() sim.Refusal              { return b.p.Refusal() }
func (b *bridged) isRunning(id int64) bool           { return b.seqs[id].State() == sim.Running }
func (b *bridged) add(id int64, tokens int) bool     { return b.p.Add(b.seqs[id], tokens) }
func (b *bridged) addDecodes() bool                  { return b.p.AddDecodes() }
func (b *bridged) preempt(id int64)                  { b.p.Preempt(b.seqs[id]) }
func (b *bridged) reserve(id int64, tokens int) bool { return b.p.Reserve(b.seqs[id], tokens) }
func (b *bridged) retain(id int64)                   { b.p.Retain(b.seqs[id], false, true) }
func (b *bridged) release()                          { b.p.Release() }
func (b *bridged) pad(rows, promptTokens int)        { b.p.Pad(rows, promptTokens) }
func (b *bridged) reject(id int64, reason string)    { b.p.Reject(b.seqs[id], reason) }
func (b *bridged) maxOutput(id int64) (int, int) {
	return b.seqs[id].Prompt(), b.seqs[id].MaxOutput()
}
func (b *bridged) limits() (int, int, int, int) {
	zero := func(n int) int {
		if n > 1<<40 {
			return 0
		}
		return n
	}
	l := b.v.Limits
	return zero(l.MaxBatchTokens), zero(l.MaxModelLen), zero(l.Blocks), l.BlockTokens
}
