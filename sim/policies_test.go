package sim_test

import (
	"math"

	"servesim/sim"
)

// naiveContinuous restates scheduler.Continuous.
func naiveContinuous(reserve bool) policy {
	return func(p planner, _ int) {
		admitted := false
		for _, id := range p.waiting() {
			ok := naiveAdmit(p, id, reserve)
			if !ok {
				break
			}
			admitted = admitted || p.isRunning(id)
		}
		if !admitted {
			naiveDecode(p)
		}
	}
}

// naiveChunked restates scheduler.ChunkedPrefill.
func naiveChunked(p planner, _ int) {
	decoding := map[int64]bool{}
	for _, id := range p.running() {
		decoding[id] = p.pending(id) == 1
	}
	calm := naiveDecode(p)
	for _, id := range p.running() {
		if decoding[id] || p.pending(id) == 0 {
			continue
		}
		if n := min(p.pending(id), p.room()); n == 0 || !p.add(id, n) {
			break
		}
	}
	if !calm {
		return
	}
	for _, id := range p.waiting() {
		n := min(p.pending(id), p.room())
		if n == 0 || !p.reserve(id, p.pending(id)) || !p.add(id, n) {
			break
		}
	}
}

// naiveRequestBatch restates scheduler.RequestBatch.
func naiveRequestBatch(size int, padded, freeAtEnd bool) policy {
	rows := 0
	return func(p planner, _ int) {
		if len(p.running()) > 0 {
			naiveDecode(p)
			if padded {
				p.pad(rows, 0)
			}
			return
		}
		p.release()
		rows = 0
		longest, sum := 0, 0
		for _, id := range p.waiting() {
			if size > 0 && rows == size || !naiveAdmit(p, id, true) {
				break
			}
			if !p.isRunning(id) {
				continue
			}
			rows++
			longest, sum = max(longest, p.pending(id)), sum+p.pending(id)
			if freeAtEnd {
				p.retain(id, false, true)
			}
		}
		if padded {
			p.pad(0, rows*longest-sum)
		}
	}
}

func naiveAdmit(p planner, id int64, reserve bool) bool {
	budget, modelLen, blocks, size := p.limits()
	gone := func(reason string) bool {
		p.reject(id, reason)
		return true
	}
	if budget > 0 && p.pending(id) > budget {
		return gone("exceeds_batch_tokens")
	}
	if !reserve || blocks == 0 {
		return p.add(id, p.pending(id))
	}
	prompt, longest := p.maxOutput(id)
	if longest == 0 && modelLen == 0 {
		return gone("unbounded_output")
	}
	if room := max(modelLen-prompt, 1); modelLen > 0 && (longest == 0 || longest > room) {
		longest = room
	}
	if refBlocks(prompt+longest-1, size) > blocks {
		return gone(sim.RejectKVCapacity)
	}
	if p.pending(id) > p.room() {
		return p.add(id, p.pending(id))
	}
	have := prompt + p.generated(id) - p.pending(id)
	return p.reserve(id, prompt+longest-1-have) && p.add(id, p.pending(id))
}

// naiveDecode gives one position to every decode, oldest first, and evicts
// the youngest sequence whenever memory is short for all of them together.
func naiveDecode(p planner) bool {
	calm := true
	for !p.addDecodes() {
		calm = false
		if p.refusal() == sim.RefusedTokens {
			for _, id := range p.running() {
				for p.isRunning(id) && p.pending(id) == 1 && !p.add(id, 1) {
					if p.refusal() == sim.RefusedTokens {
						return false
					}
					p.preempt(p.running()[len(p.running())-1])
				}
			}
			return false
		}
		p.preempt(p.running()[len(p.running())-1])
	}
	return calm
}

// plainPull pulls, first come first served, what leaves the headroom free, and
// leaves the rest of the pass to another scheduler.
type plainPull struct {
	next     sim.Scheduler
	headroom float64
}

func (e plainPull) Schedule(v sim.View, p *sim.Plan) {
	e.pull(v, p)
	e.next.Schedule(v, p)
}

func (e plainPull) pull(v sim.View, p *sim.Plan) {
	l := v.Limits
	room := func(s *sim.Sequence) bool {
		return e.headroom == 0 || v.Running.Len() == 0 || l.Blocks == math.MaxInt ||
			p.Free()-refBlocks(s.Prompt(), l.BlockTokens) >= int(e.headroom*float64(l.Blocks))
	}
	for s := range v.Remote.All() {
		if !room(s) || !p.Pull(s) {
			return
		}
	}
	for s := range v.Coming.All() {
		if !s.Pulled() && !(room(s) && p.Pull(s)) {
			return
		}
	}
}

// naivePull restates it.
func naivePull(headroom float64, inner policy) policy {
	return func(p planner, pass int) {
		_, _, blocks, size := p.limits()
		room := func(id int64) bool {
			prompt, _ := p.maxOutput(id)
			return headroom == 0 || len(p.running()) == 0 || blocks == 0 || p.free()-refBlocks(prompt, size) >= int(headroom*float64(blocks))
		}
		pull := func() {
			for _, id := range p.remote() {
				if !room(id) || !p.pull(id) {
					return
				}
			}
			for _, id := range p.coming() {
				if !p.pulled(id) && !(room(id) && p.pull(id)) {
					return
				}
			}
		}
		pull()
		inner(p, pass)
	}
}
