package sim_test

import (
	"time"

	"servesim/sim"
)

// planner is what a policy of the tests may do. Both engines implement it;
// sequences are named by their serial number.
type planner interface {
	waiting() []int64
	running() []int64
	swapped() []int64
	remote() []int64
	coming() []int64
	pulling() []int64
	pulled(id int64) bool
	free() int
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
	swap(id int64) bool
	swapIn(id int64) bool
	pull(id int64) bool
	reserve(id int64, tokens int) bool
	retain(id int64, slot, blocks bool)
	release()
	pad(rows, promptTokens int)
	reject(id int64, reason string)
	arrange(running []int64)
	requeue(line ...int64)
	wakeAfter(d time.Duration)
}

// policy is a scheduler for both engines. pass counts the passes from 1.
type policy func(p planner, pass int)

// bridge runs a policy on the engine under test.
type bridge struct {
	policy policy
	passes int
}

func (b *bridge) Schedule(v sim.View, p *sim.Plan) {
	b.passes++
	q := &bridged{v: v, p: p, seqs: map[int64]*sim.Sequence{}}
	for _, l := range []sim.List{v.Waiting, v.Running, v.Swapped, v.Remote, v.Coming, v.Pulling} {
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
func (b *bridged) swapped() []int64                  { return listed(b.v.Swapped) }
func (b *bridged) remote() []int64                   { return listed(b.v.Remote) }
func (b *bridged) coming() []int64                   { return listed(b.v.Coming) }
func (b *bridged) pulling() []int64                  { return listed(b.v.Pulling) }
func (b *bridged) free() int                         { return b.p.Free() }
func (b *bridged) pulled(id int64) bool              { return b.seqs[id].Pulled() }
func (b *bridged) pull(id int64) bool                { return b.p.Pull(b.seqs[id]) }
func (b *bridged) pending(id int64) int              { return b.seqs[id].Pending() }
func (b *bridged) generated(id int64) int            { return b.seqs[id].Generated() }
func (b *bridged) drafts(id int64) int               { return b.seqs[id].Drafts() }
func (b *bridged) room() int                         { return b.p.Room() }
func (b *bridged) refusal() sim.Refusal              { return b.p.Refusal() }
func (b *bridged) isRunning(id int64) bool           { return b.seqs[id].State() == sim.Running }
func (b *bridged) add(id int64, tokens int) bool     { return b.p.Add(b.seqs[id], tokens) }
func (b *bridged) addDecodes() bool                  { return b.p.AddDecodes() }
func (b *bridged) preempt(id int64)                  { b.p.Preempt(b.seqs[id]) }
func (b *bridged) swap(id int64) bool                { return b.p.Swap(b.seqs[id]) }
func (b *bridged) swapIn(id int64) bool              { return b.p.SwapIn(b.seqs[id]) }
func (b *bridged) reserve(id int64, tokens int) bool { return b.p.Reserve(b.seqs[id], tokens) }
func (b *bridged) release()                          { b.p.Release() }
func (b *bridged) pad(rows, promptTokens int)        { b.p.Pad(rows, promptTokens) }
func (b *bridged) reject(id int64, reason string)    { b.p.Reject(b.seqs[id], reason) }
func (b *bridged) all(ids []int64) (out []*sim.Sequence) {
	for _, id := range ids {
		out = append(out, b.seqs[id])
	}
	return out
}
func (b *bridged) arrange(running []int64)   { b.p.Arrange(b.all(running)) }
func (b *bridged) requeue(line ...int64)     { b.p.Requeue(b.all(line)...) }
func (b *bridged) wakeAfter(d time.Duration) { b.p.WakeAt(b.v.Now.Add(d)) }
func (b *bridged) retain(id int64, slot, blocks bool) {
	b.p.Retain(b.seqs[id], slot, blocks)
}
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
