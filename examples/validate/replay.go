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

// replay is a recorded run, simulated: its requests under its settings, on
// ranks that step together.
type replay struct {
	rec    *recording
	device stepper
	host   host
	scale  float64 // of the device's time; 1 is the model
	blocks int     // of KV, on each rank
	// shared has for each request the earlier one whose whole prompt it begins
	// with, -1 for none; nil means that none does.
	shared []int
}

// lived is what happened to a request, in seconds from the first arrival.
type lived struct {
	taken, first, last float64 // when the engine saw it, its first and its last token
	rank               int
	from, to           int // steps after the one of the first token, up to that of the last
}

// history is a simulated run.
type history struct {
	requests    []lived
	steps       []step
	preemptions int
	makespan    float64
	refused     error // of a request that the simulated engine did not serve as the real one did
}

// step is one step of all ranks.
type step struct {
	start, end float64
	device     float64 // seconds on the device, unscaled
	sequences  int     // in the batches of all ranks
	running    int     // of all ranks, and so on
	waiting    int
	free       int
	prompts    int // positions of prompts
	tokens     int
}

// run simulates. The clock is the engine's: one plan and one step of all ranks
// after the other.
func (r *replay) run() (*history, error) {
	h := &history{requests: make([]lived, len(r.rec.requests))}
	ranks := r.rec.settings.ranks
	steppers := make([]*sim.Stepper, ranks)
	step := 0
	for i := range steppers {
		var err error
		if steppers[i], err = sim.NewStepper(r.config(i, h, &step)); err != nil {
			return nil, err
		}
	}
	requests := r.requests()
	var err error
	now, seen, next := 0.0, 0.0, 0
	batches := make([]sim.Batch, ranks)
	for ; ; step++ {
		if idle(steppers) {
			if h.refused != nil {
				return nil, fmt.Errorf("%s: %w", r.rec.dir, h.refused)
			}
			if next == len(requests) {
				h.makespan = now
				return h, nil
			}
			now = max(now, r.arrival(next))
			seen = now
		}
		for ; next < len(requests) && r.arrival(next) <= seen; next++ {
			k := leastLoaded(steppers, next)
			h.requests[next].taken, h.requests[next].rank = seen, k
			if why := steppers[k].Submit(at(now), requests[next]); why != "" {
				return nil, fmt.Errorf("%s: request %s: %s", r.rec.dir, r.rec.requests[next].ID, why)
			}
		}
		if now, err = r.step(h, steppers, batches, now); err != nil {
			return nil, err
		}
		seen = now
		// With async scheduling a step is planned while the one before is on
		// the device: a request that arrives meanwhile waits for one more.
		if r.rec.settings.async {
			seen = h.steps[len(h.steps)-1].start
		}
	}
}

// step plans all ranks at now, and ends their steps together.
func (r *replay) step(h *history, steppers []*sim.Stepper, batches []sim.Batch, now float64) (end float64, err error) {
	s := step{start: now}
	for i, x := range steppers {
		if batches[i], err = plan(x, now); err != nil {
			return 0, err
		}
		b := &batches[i]
		s.sequences += b.Decodes + len(b.Prefills)
		s.running += x.Running().Len()
		s.waiting += x.Waiting().Len()
		s.free += x.Free()
		s.prompts += b.PrefillTokens()
		s.tokens += b.Samples()
	}
	s.device = r.device.stepSeconds(batches)
	s.end = now + r.scale*s.device + r.host.Step + r.host.Sequence*float64(s.sequences)
	h.steps = append(h.steps, s)
	for i, x := range steppers {
		if batches[i].Empty() {
			continue
		}
		if err := x.Complete(at(s.end), nil); err != nil {
			return 0, err
		}
	}
	return s.end, nil
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

func idle(steppers []*sim.Stepper) bool {
	for _, x := range steppers {
		if x.Running().Len()+x.Waiting().Len() > 0 {
			return false
		}
	}
	return true
}

// leastLoaded is how vLLM's front end spreads requests over data-parallel
// ranks: four for a waiting request, one for a running one, ties in turn.
func leastLoaded(steppers []*sim.Stepper, turn int) int {
	best, least := 0, math.MaxInt
	for d := range steppers {
		i := (d + turn) % len(steppers)
		if load := 4*steppers[i].Waiting().Len() + steppers[i].Running().Len(); load < least {
			best, least = i, load
		}
	}
	return best
}

// config is one rank under the settings of the recorded engine.
func (r *replay) config(rank int, h *history, step *int) sim.Config {
	e := r.rec.settings
	watch := sim.ObserverFunc(func(e sim.Event) {
		l := (*lived)(nil)
		if e.ID >= 0 && e.ID < len(h.requests) {
			l = &h.requests[e.ID]
		}
		switch e.Kind {
		case sim.FirstToken:
			l.first, l.from = e.Time.Seconds(), *step+1
		case sim.Finish:
			l.last, l.to = e.Time.Seconds(), *step
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
	list := make([]sim.Request, len(r.rec.requests))
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
				ids[b] = uint64(j)<<32 | uint64(b)
			}
		}
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
