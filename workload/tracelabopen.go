package workload

import (
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"servesim/sim"
)

// errClosedLoop refuses what a list of arrivals cannot say.
var errClosedLoop = errors.New("TraceLab.OpenLoop is nil: a round waits for the answer before it, so its arrival is not in the file; TraceLabReplay waits, or say how long answers are taken to need")

// Requests replays the recording in open loop: the first round arrives with
// its session, each other one after its predecessor, the time that OpenLoop
// gives that and its Wait. The feedback of a session is lost: rounds do not
// wait for answers that take longer. A nil OpenLoop is an error.
//
// The ID of a request is its row. Rounds without prompt or output are dropped
// and counted, but take their time. The rounds to come of sessions that have
// begun are held.
func (t TraceLab) Requests() iter.Seq2[sim.Request, error] {
	return func(yield func(sim.Request, error) bool) {
		counts := resetCounts(t.Counts)
		if t.OpenLoop == nil {
			fail(yield, errClosedLoop)
			return
		}
		var next rounds
		for s, err := range t.Sessions() {
			if err != nil {
				yield(sim.Request{}, err)
				return
			}
			if !next.emitBefore(s.Arrival, yield) {
				return
			}
			requests := s.Requests(cmp.Or(t.BlockTokens, sim.DefaultBlockTokens))
			if err := next.add(s, requests, t.OpenLoop, counts); err != nil {
				fail(yield, fmt.Errorf("%s: %w", t.Path, err))
				return
			}
		}
		next.emitBefore(sim.Never, yield)
	}
}

// rounds are those to come, a heap by arrival and row.
type rounds []sim.Request

// add adds the rounds of a session that are kept, with their arrivals.
func (h *rounds) add(s TraceLabSession, requests []sim.Request, takes func(TraceLabRound) time.Duration, counts *Counts) error {
	at := s.Arrival
	for i, r := range s.Rounds {
		requests[i].Arrival = at
		if counts.add(&row{prompt: r.Prompt(), output: r.Output}) {
			heap.Push(h, requests[i])
		}
		if i == len(s.Rounds)-1 {
			break
		}
		d := takes(r)
		if d < 0 {
			return fmt.Errorf("TraceLab.OpenLoop is %v for round %d of session %q, want at least 0", d, i, s.ID)
		}
		if at > math.MaxInt64-sim.Time(d) || at.Add(d) > math.MaxInt64-sim.Time(r.Wait) {
			return fmt.Errorf("round %d of session %q arrives after 292 years", i+1, s.ID)
		}
		at = at.Add(d).Add(r.Wait)
	}
	return nil
}

// emitBefore yields the rounds that arrive before a time, all if that is
// sim.Never, and reports whether more are wanted.
func (h *rounds) emitBefore(t sim.Time, yield func(sim.Request, error) bool) bool {
	for len(*h) > 0 && ((*h)[0].Arrival < t || t == sim.Never) {
		if !yield(heap.Pop(h).(sim.Request), nil) {
			return false
		}
	}
	return true
}

func (h rounds) Len() int { return len(h) }
func (h rounds) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(h[i].Arrival, h[j].Arrival), cmp.Compare(h[i].ID, h[j].ID)) < 0
}
func (h rounds) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *rounds) Push(x any)   { *h = append(*h, x.(sim.Request)) }
func (h *rounds) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
