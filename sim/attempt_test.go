package sim_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/sim"
)

// Request 5 comes at 7 ms, is refused until 20 ms, and comes again every 10 ms.
// Every event of an attempt says which one it is, and when the first came.
func TestEventAttempt(t *testing.T) {
	type told struct {
		Kind    sim.Kind
		At      sim.Time
		Attempt int
		First   sim.Time
		Tokens  int
	}
	var got []told
	cfg := tenMS(sim.ObserverFunc(func(e sim.Event) {
		n, first := e.Attempt()
		switch e.Kind {
		case sim.StepEnd, sim.End:
			if n != 0 {
				t.Errorf("attempt %d of %v", n, e)
			}
		default:
			if e.ID == 5 {
				got = append(got, told{e.Kind, e.Time, n, first, len(e.TokenTimes(nil))})
			}
		}
	}))
	cfg.TokenTimes = true
	cfg.Admission = closedUntil(millisecond(20))
	cfg.FollowUp = func(c sim.Completion) []sim.Request {
		if c.Kind != sim.Reject {
			return nil
		}
		r := c.Request
		r.Attempt++
		r.First, r.Arrival = millisecond(7), c.End.Add(10*time.Millisecond)
		return []sim.Request{r}
	}
	if _, err := sim.Run(context.Background(), cfg, requestsOf(sim.Request{ID: 5, Arrival: millisecond(7), Prompt: 3, Output: 2})); err != nil {
		t.Fatal(err)
	}
	seven := millisecond(7)
	want := []told{
		{sim.Arrive, seven, 0, seven, 0}, {sim.Reject, seven, 0, seven, 0},
		{sim.Arrive, millisecond(17), 1, seven, 0}, {sim.Reject, millisecond(17), 1, seven, 0},
		{sim.Arrive, millisecond(27), 2, seven, 0}, {sim.Queue, millisecond(27), 2, seven, 0}, {sim.Admit, millisecond(27), 2, seven, 0},
		// Token times are told at the end alone.
		{sim.PrefillEnd, millisecond(37), 2, seven, 0}, {sim.FirstToken, millisecond(37), 2, seven, 0}, {sim.Finish, millisecond(47), 2, seven, 2},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestAttemptOfAnEventMadeByHand(t *testing.T) {
	n, first := sim.Event{Kind: sim.Arrive, Time: 9, Timeline: sim.Timeline{Arrival: 4}}.Attempt()
	if n != 0 || first != 4 {
		t.Errorf("attempt %d, first %d, want 0 and 4", n, int64(first))
	}
}

// closedUntil refuses everybody before that instant.
type closedUntil sim.Time

func (c closedUntil) Admit(now sim.Time, _ sim.Query, _ []sim.Load) sim.Decision {
	if now < sim.Time(c) {
		return sim.Decision{Reject: "closed"}
	}
	return sim.Decision{}
}
