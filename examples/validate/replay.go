package main

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"servesim/costmodel"
	"servesim/scheduler"
	"servesim/sim"
	"servesim/sim/kv"
)

// stepper tells how long a step of ranks that go together takes on the device,
// in seconds.
type stepper interface {
	stepSeconds(batches []sim.Batch) float64
}

// host is the part of a step that the device waits for. Ranks that step
// together share the host and its front end, so that it counts the sequences of
// all: with those of one rank, the recorded run of two ranks would need twice
// the coefficient of the other run on that GPU. That is an inference from three
// runs.
type host struct {
	Step     float64 `json:"step_s"`
	Sequence float64 `json:"sequence_s"`
}

// replay is a recorded run, simulated: its requests under its settings.
type replay struct {
	rec    *recording
	device stepper
	host   host
	scale  float64 // of the device's time; 1 is the model
	blocks int     // of KV, on each rank
	// counts says what a step is made of; nil if that is not known.
	counts *costmodel.Transformer
	// apart means that each rank is an engine with a clock of its own, behind
	// one front end; otherwise all of them step together.
	apart bool
	// shared has for each request the earlier one whose whole prompt it begins
	// with, -1 for none; nil means that none does.
	shared []int
}

// lived is what happened to a request, in seconds from the first arrival.
type lived struct {
	taken, first, last float64 // when the engine saw it, its first and its last token
	group              int
	from, to           int // steps of the group after the one of the first token, up to that of the last
}

// history is a simulated run.
type history struct {
	requests    []lived
	steps       [][]step // of each group, in order
	preemptions int
	makespan    float64
	refused     error // of a request that the simulated engine did not serve as the real one did
}

// step is one step of a group's ranks.
type step struct {
	start, end float64
	device     float64 // seconds on the device, unscaled
	sequences  int     // in the batches of all ranks
	running    int     // of all ranks, and so on
	waiting    int
	free       int
	prompts    int // positions of prompts
	tokens     int
	batches    []sim.Batch // of each rank
}

// group is ranks that step together, one engine.
type group struct {
	ranks   []*sim.Stepper
	batches []sim.Batch
	steps   []step
	inbox   []int   // requests that it has not taken, by arrival
	now     float64 // end of its latest step
	seen    float64 // it takes what has arrived by then
	flying  bool    // the latest step has not ended
}

// run simulates. What happens first comes first: the front end hands a request
// to a group when it arrives, and a group ends a step and plans the next.
func (r *replay) run() (*history, error) {
	h := &history{requests: make([]lived, len(r.rec.requests))}
	groups, err := r.groups(h)
	if err != nil {
		return nil, err
	}
	requests := r.requests()
	for next := 0; ; {
		k, when := r.earliest(groups)
		if next < len(requests) && r.arrival(next) <= when {
			k = leastLoaded(len(groups), next, func(i int) int { return groups[i].load() })
			groups[k].inbox = append(groups[k].inbox, next)
			h.requests[next].group = k
			next++
			continue
		}
		if math.IsInf(when, 1) {
			for _, g := range groups {
				h.steps, h.makespan = append(h.steps, g.steps), max(h.makespan, g.now)
			}
			return h, nil
		}
		if err := r.turn(h, groups[k], requests); err != nil {
			return nil, fmt.Errorf("%s: %w", r.rec.dir, err)
		}
	}
}

// groups returns one for all ranks, or one for each.
func (r *replay) groups(h *history) ([]*group, error) {
	n, each := 1, r.rec.settings.ranks
	if r.apart {
		n, each = each, 1
	}
	list := make([]*group, n)
	for i := range list {
		g := &group{batches: make([]sim.Batch, each)}
		for range each {
			x, err := sim.NewStepper(r.config(g, h))
			if err != nil {
				return nil, err
			}
			g.ranks = append(g.ranks, x)
		}
		list[i] = g
	}
	return list, nil
}

// earliest returns the group that has something to do first, and when: at
// infinity if none has.
func (r *replay) earliest(groups []*group) (k int, when float64) {
	when = math.Inf(1)
	for i, g := range groups {
		t := g.now
		if !g.flying {
			if len(g.inbox) == 0 {
				continue
			}
			t = max(t, r.arrival(g.inbox[0]))
		}
		if t < when {
			k, when = i, t
		}
	}
	return k, when
}

// turn ends a group's step, if there is one, takes what has arrived and begins
// the next if there is something to do.
func (r *replay) turn(h *history, g *group, requests []sim.Request) error {
	if err := g.complete(); err != nil {
		return err
	}
	if g.idle() {
		if h.refused != nil {
			return h.refused
		}
		if len(g.inbox) == 0 {
			return nil
		}
		g.now = max(g.now, r.arrival(g.inbox[0]))
		g.seen = g.now
	}
	for ; len(g.inbox) > 0 && r.arrival(g.inbox[0]) <= g.seen; g.inbox = g.inbox[1:] {
		i := g.inbox[0]
		h.requests[i].taken = g.seen
		k := leastLoaded(len(g.ranks), i, func(k int) int { return load(g.ranks[k]) })
		if why := g.ranks[k].Submit(at(g.now), requests[i]); why != "" {
			return fmt.Errorf("request %s: %s", r.rec.requests[i].ID, why)
		}
	}
	return r.step(g)
}

// step plans all ranks of a group.
func (r *replay) step(g *group) error {
	s := step{start: g.now}
	for i, x := range g.ranks {
		var err error
		if g.batches[i], err = plan(x, g.now); err != nil {
			return err
		}
		b := &g.batches[i]
		s.sequences += b.Decodes + len(b.Prefills)
		s.running += x.Running().Len()
		s.waiting += x.Waiting().Len()
		s.free += x.Free()
		s.prompts += b.PrefillTokens()
		s.tokens += b.Samples()
	}
	s.batches = slices.Clone(g.batches)
	s.device = r.device.stepSeconds(g.batches)
	s.end = g.now + r.scale*s.device + r.host.Step + r.host.Sequence*float64(s.sequences)
	g.steps, g.flying = append(g.steps, s), true
	g.now, g.seen = s.end, s.end
	// With async scheduling a step is planned while the one before is on the
	// device: a request that arrives meanwhile waits for one more.
	if r.rec.settings.async {
		g.seen = s.start
	}
	return nil
}

// complete ends the step in flight on all ranks together.
func (g *group) complete() error {
	for i, x := range g.ranks {
		if !g.flying || g.batches[i].Empty() {
			continue
		}
		if err := x.Complete(at(g.now), nil); err != nil {
			return err
		}
	}
	g.flying = false
	return nil
}

// plan asks until there is something to do: a pass that only preempts plans
// nothing.
func plan(x *sim.Stepper, now float64) (sim.Batch, error) {
	for {
		before := x.Running().Len()
		b, _, err := x.Plan(at(now))
		if err != nil || !b.Empty() || x.Running().Len() == before {
			b.Prefills = slices.Clone(b.Prefills)
			return b, err
		}
	}
}

func at(seconds float64) sim.Time { return sim.Time(math.Round(seconds * 1e9)) }

func (g *group) idle() bool {
	for _, x := range g.ranks {
		if x.Running().Len()+x.Waiting().Len() > 0 {
			return false
		}
	}
	return true
}

// load is what vLLM's front end weighs: four for a waiting request, one for a
// running one.
func load(x *sim.Stepper) int { return 4*x.Waiting().Len() + x.Running().Len() }

func (g *group) load() int {
	sum := 4 * len(g.inbox)
	for _, x := range g.ranks {
		sum += load(x)
	}
	return sum
}

// leastLoaded is how vLLM's front end spreads requests over data-parallel
// ranks, ties in turn.
func leastLoaded(n, turn int, load func(int) int) int {
	best, least := 0, math.MaxInt
	for d := range n {
		i := (d + turn) % n
		if x := load(i); x < least {
			best, least = i, x
		}
	}
	return best
}

// config is one rank under the settings of the recorded engine.
func (r *replay) config(of *group, h *history) sim.Config {
	e := r.rec.settings
	watch := sim.ObserverFunc(func(e sim.Event) {
		l := (*lived)(nil)
		if e.ID >= 0 && e.ID < len(h.requests) {
			l = &h.requests[e.ID]
		}
		switch e.Kind {
		case sim.FirstToken:
			l.first, l.from = e.Time.Seconds(), len(of.steps)
		case sim.Finish:
			l.last, l.to = e.Time.Seconds(), len(of.steps)-1
			if m := r.rec.requests[e.ID]; e.Output != m.Output {
				h.refused = fmt.Errorf("request %s: ended after %d of its %d tokens", m.ID, e.Output, m.Output)
			}
		case sim.Preempt:
			h.preemptions++
		case sim.Reject:
			h.refused = fmt.Errorf("request %s: %s", r.rec.requests[e.ID].ID, e.Reason)
		}
	})
	return sim.Config{
		Replicas: []sim.Replica{{
			Scheduler: scheduler.VLLM1{Threshold: e.threshold, Watermark: e.watermark, WholePrompts: e.wholePrompts},
			CostModel: costmodel.Linear{Fixed: 1}, // the loop knows the time
			KVBlocks:  r.blocks, ReservedBlocks: 1, BlockTokens: e.blockSize, PrefixCache: e.prefixes,
			MaxSeqs: e.seqs, MaxBatchTokens: e.batchTokens, MaxModelLen: e.maxModelLen,
		}},
		Observers: []sim.Observer{watch},
	}
}

// arrival of a request, from the first one, on the client's clock.
func (r *replay) arrival(i int) float64 {
	return r.rec.requests[i].Arrival - r.rec.requests[0].Arrival
}

// requests are those of the recording. With a prefix cache each has blocks of
// its own, which it finds again after a preemption, behind those that it shares
// with an earlier one.
func (r *replay) requests() []sim.Request {
	size := r.rec.settings.blockSize
	list, all := make([]sim.Request, len(r.rec.requests)), make([][]uint64, len(r.rec.requests))
	for i, m := range r.rec.requests {
		list[i] = sim.Request{ID: i, Arrival: at(r.arrival(i)), Prompt: m.Prompt, Output: m.Output, MaxOutput: m.Output}
		if !r.rec.settings.prefixes {
			continue
		}
		ids := make([]uint64, (m.Prompt+m.Output)/size)
		for b := range ids {
			ids[b] = uint64(i)<<32 | uint64(b)
			if r.shared == nil || r.shared[i] < 0 {
				continue
			}
			if j := r.shared[i]; b < r.rec.requests[j].Prompt/size {
				ids[b] = all[j][b] // which it may share with a third one
			}
		}
		all[i] = ids
		list[i].Prefix, list[i].PrefixBlock = kv.HashIDs(nil, ids, r.rec.name), size
	}
	return list
}

// sharedPrompts returns for each request the earlier one whose whole prompt it
// begins with, -1 for none: the second turn of a conversation. A workload file
// in one of the folders says how many tokens a request shares; that they are
// the full blocks, of 16 tokens, of an earlier prompt is inferred, and of several
// such prompts the latest is taken. A run whose tokens were counted by another
// tokenizer is matched line by line. Without a file nothing is shared.
func (r *recording) sharedPrompts(folders ...string) (list []int, from string, err error) {
	const block = 16
	for _, folder := range folders {
		paths, err := filepath.Glob(filepath.Join(folder, "*.csv"))
		if err != nil {
			return nil, "", err
		}
		for _, path := range paths {
			prompts, shared, err := readShared(path)
			if err != nil {
				return nil, "", err
			}
			if !r.alike(prompts) {
				continue
			}
			list := slices.Repeat([]int{-1}, len(prompts))
			for i, tokens := range shared {
				for j := i - 1; j >= 0 && tokens > 0 && list[i] < 0; j-- {
					if prompts[j]/block*block == tokens {
						list[i] = j
					}
				}
			}
			return list, filepath.Base(path), nil
		}
	}
	return nil, "", nil
}

// alike reports whether the prompts are those of the run, up to the tokenizer.
func (r *recording) alike(prompts []int) bool {
	if len(prompts) != len(r.requests) {
		return false
	}
	for i, m := range r.requests {
		if ratio := float64(m.Prompt) / float64(prompts[i]); ratio < 0.7 || ratio > 1.4 {
			return false
		}
	}
	return true
}

// readShared reads a workload file; another CSV file has no prompts.
func readShared(path string) (prompts, shared []int, err error) {
	const prompt, share = "input_toks", "prefix_shared_with_earlier_toks"
	err = readCSV(path, nil, func(line *row) {
		if line.has(prompt) && line.has(share) {
			prompts, shared = append(prompts, line.count(prompt)), append(shared, line.count(share))
		}
	})
	return prompts, shared, err
}
