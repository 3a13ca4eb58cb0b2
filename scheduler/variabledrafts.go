package scheduler

import (
	"errors"
	"fmt"

	"servesim/sim"
)

// VariableDrafts schedules as [VLLM1] does, but chooses in every step how many
// drafts it checks: as many as make the most of the step's time. Checked
// positions are nearly free while the step waits for memory, and cost as much
// as any other when it waits for arithmetic.
//
// With R decodes, of which a step checks k drafts each, it expects
//
//	U(k) = R · (1 + Accepted[0] + … + Accepted[k-1])
//
// useful tokens in T(k), the price of the step, and takes the k with the
// largest U/T, the smallest among equals. All decodes check the same number, as
// far as they have drafts: kernels for one shape, and one number to choose.
//
// In a step with prompt chunks the time of the chunks is no cost of the drafts.
// There it takes the largest U(k) - λ·T(k), T with the chunks and λ the best
// U/T of the same decodes alone: a draft is checked if it brings more per
// additional time than a step without prompts would.
//
// There are fewer drafts if the token budget has no room for all decodes with
// them, or if their KV blocks would be missing for another decode or for the
// rest of an admitted prompt: nobody is preempted for a draft of the same step.
// Prompts get what the drafts leave of the token budget.
//
// It must not be changed while it is used, and needs one value per replica. It
// panics if Validate has an error. A step costs O(running sequences) and, for
// each number of drafts, a call of the cost model or two.
type VariableDrafts struct {
	// CostModel prices the steps to choose from, the making of drafts
	// included; usually the replica's own.
	CostModel sim.CostModel
	// Accepted[i] is the expected probability that at least i+1 drafts are
	// right: from 0 to 1, not rising. Drafts beyond its length are not checked.
	Accepted []float64

	// Of the pass.
	drafted bool  // a decode has drafts
	rows    []int // rows[i] decodes have at least i drafts
	useful  []float64
	chunks  []sim.Chunk
}

// Validate names the first field that is out of range.
func (e *VariableDrafts) Validate() error {
	if e.CostModel == nil {
		return errors.New("VariableDrafts.CostModel is nil")
	}
	before := 1.0
	for i, p := range e.Accepted {
		if !(p >= 0 && p <= before) {
			return fmt.Errorf("VariableDrafts.Accepted[%d] is %v, want 0 to %v", i, p, before)
		}
		before = p
	}
	return nil
}

// Schedule implements sim.Scheduler.
func (e *VariableDrafts) Schedule(v sim.View, p *sim.Plan) {
	if err := e.Validate(); err != nil {
		panic("scheduler: " + err.Error())
	}
	if !e.advance(v, p, e.choose(v, p)) {
		return
	}
	VLLM1{}.admit(v, p)
	if v.Prefilling.Len() == 0 {
		p.Hold()
	}
}

// advance gives running sequences what they miss and so many drafts. It
// reports whether nobody was preempted.
func (e *VariableDrafts) advance(v sim.View, p *sim.Plan, drafts int) (calm bool) {
	if !e.drafted {
		return VLLM1{}.advance(v, p)
	}
	calm = true
	for s := range v.Running.All() {
		n := min(s.Pending()+min(s.Drafts(), drafts), p.Room())
		if n == 0 {
			continue
		}
		for s.State() == sim.Running && !p.Add(s, n) {
			calm = false
			p.Preempt(v.Running.Last())
		}
		if s.State() != sim.Running {
			return false
		}
	}
	return calm
}

// choose returns the drafts of the step.
func (e *VariableDrafts) choose(v sim.View, p *sim.Plan) int {
	batch := e.survey(v)
	most := len(e.rows) - 1
	if most == 0 {
		return 0
	}
	// What decodes and admitted prompts need comes first.
	room, free := p.Room()-e.rows[0], p.Free()
	for s := range v.Running.All() {
		free -= p.Need(s, s.Pending())
	}
	for most > 0 && !e.fits(v, p, most, room, free) {
		most--
	}
	e.expect(most)
	best, rate := 0, 0.0
	for k, useful := range e.useful {
		if r := useful / e.seconds(batch, k); r > rate {
			best, rate = k, r
		}
	}
	if batch.Prefills = e.prompts(v, p, room, free); len(batch.Prefills) == 0 {
		return best
	}
	best, gain := 0, 0.0
	for k, useful := range e.useful {
		if g := useful - float64(rate*e.seconds(batch, k)); k == 0 || g > gain {
			best, gain = k, g
		}
	}
	return best
}

// survey counts the decodes by their drafts and returns them as a batch
// without drafts.
func (e *VariableDrafts) survey(v sim.View) (batch sim.Batch) {
	e.rows, e.drafted = append(e.rows[:0], 0), false
	for s := range v.Running.All() {
		if s.Pending() != 1 {
			continue
		}
		batch.Decodes++
		batch.Context += s.Context()
		e.drafted = e.drafted || s.Drafts() > 0
		n := min(s.Drafts(), len(e.Accepted))
		for len(e.rows) <= n {
			e.rows = append(e.rows, 0)
		}
		e.rows[n]++
	}
	batch.Positions = batch.Decodes
	for i := len(e.rows) - 2; i >= 0; i-- {
		e.rows[i] += e.rows[i+1]
	}
	return batch
}

// fits reports whether the drafts leave the others the positions and blocks
// that they need.
func (e *VariableDrafts) fits(v sim.View, p *sim.Plan, drafts, room, free int) bool {
	if e.positions(drafts) > room {
		return false
	}
	for s := range v.Running.All() {
		if n := min(s.Drafts(), drafts); n > 0 {
			free -= p.Need(s, 1+n) - p.Need(s, 1)
		}
	}
	return free >= 0
}

// positions returns how many drafts all decodes check together.
func (e *VariableDrafts) positions(drafts int) int {
	n := 0
	for i := range drafts {
		n += e.rows[i+1]
	}
	return n
}

// expect computes the useful tokens for no draft up to most.
func (e *VariableDrafts) expect(most int) {
	useful := float64(e.rows[0])
	e.useful = append(e.useful[:0], useful)
	for i := range most {
		useful += float64(float64(e.rows[i+1]) * e.Accepted[i])
		e.useful = append(e.useful, useful)
	}
}

// prompts returns the chunks that the step would hold beside the decodes if
// these had no drafts, as far as they can be told before the step is planned.
func (e *VariableDrafts) prompts(v sim.View, p *sim.Plan, room, free int) []sim.Chunk {
	e.chunks = e.chunks[:0]
	add := func(s *sim.Sequence) {
		n := min(s.Pending(), room)
		e.chunks = append(e.chunks, sim.Chunk{Tokens: n, Context: s.Prompt() + s.Generated() - s.Pending(), Last: n == s.Pending()})
		room -= n
	}
	for s := range v.Prefilling.All() {
		if room > 0 {
			add(s)
		}
	}
	slots := p.Slots()
	for s := range v.Waiting.All() {
		free -= p.Need(s, s.Pending())
		if slots == 0 || room <= 0 || free < 0 {
			break
		}
		add(s)
		slots--
	}
	return e.chunks
}

// seconds returns the price of the batch with so many drafts. As in a run, no
// price is one nanosecond.
func (e *VariableDrafts) seconds(batch sim.Batch, drafts int) float64 {
	batch.Positions += e.positions(drafts)
	return max(e.CostModel.StepTime(batch), 1).Seconds()
}
