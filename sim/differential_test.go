package sim_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"servesim/sim"
)

// refTimes formats the token times of a request that ended.
func refTimes(times []sim.Time) string {
	var s strings.Builder
	s.WriteString("tokens")
	for _, t := range times {
		s.WriteString(" " + strconv.FormatInt(int64(t), 10))
	}
	return s.String()
}

// eventLine formats an event with what its String leaves out.
func eventLine(e sim.Event) string {
	s := e.String()
	if e.Kind == sim.StepEnd {
		return fmt.Sprintf("%s, %d positions, blocks %d in %d out", s, e.Batch.Positions, e.Batch.SwapIn, e.Batch.SwapOut)
	}
	return fmt.Sprintf("%s, %d tokens, timeline %d, %d preemptions, %d over", s, e.Output, e.Timeline, e.Preemptions, e.GapsOver)
}

// eventLog is an observer that keeps every event as a line.
type eventLog []string

func (l *eventLog) Observe(e sim.Event) {
	if e.Kind == sim.End {
		return
	}
	*l = append(*l, eventLine(e))
	switch e.Kind {
	case sim.Finish, sim.Reject, sim.Abort:
		*l = append(*l, refTimes(e.TokenTimes(nil)))
	}
}

func slice(rs []sim.Request) func(func(sim.Request, error) bool) {
	return func(yield func(sim.Request, error) bool) {
		for _, r := range rs {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// engineRun runs the engine under test.
func (sc scenario) engineRun(check bool) (log, notes []string, res sim.Result, err error) {
	cfg, _ := sc.config(func(s string) { notes = append(notes, s) })
	l := &eventLog{}
	cfg.Observers = []sim.Observer{l}
	cfg.Check = check
	res, err = sim.Run(context.Background(), cfg, slice(sc.requests()))
	return *l, notes, res, err
}

// compare runs a scenario on both engines, and with and without shortcuts.
func (sc scenario) compare(t *testing.T) {
	t.Helper()
	var seen []string
	cfg, policies := sc.config(func(s string) { seen = append(seen, s) })
	ref := refRun(cfg, policies, sc.requests())
	for _, check := range []bool{true, false} {
		want, stuck := ref.log, len(ref.live) > 0
		got, notes, res, err := sc.engineRun(check)
		name := fmt.Sprintf("scenario %+v, Check %v", sc, check)
		if ref.gaveUp && err != nil && strings.Contains(err.Error(), "times without a token in between") {
			// How much of the last instant is logged is nobody's business.
			n := min(len(want), len(got))
			want, got = want[:n], got[:n]
		} else if (err != nil) != stuck {
			t.Fatalf("%s: error %v, reference stuck %v", name, err, stuck)
		}
		if i := firstDifference(want, got); i >= 0 {
			for j := firstDifference(seen, notes); j >= 0; j = -1 {
				t.Errorf("notes differ\nreference:\n  %s\nengine:\n  %s", strings.Join(around(seen, j), "\n  "), strings.Join(around(notes, j), "\n  "))
			}
			t.Fatalf("%s: logs of %d and %d lines differ at line %d\nreference:\n  %s\nengine:\n  %s", name, len(want), len(got), i,
				strings.Join(around(want, i), "\n  "), strings.Join(around(got, i), "\n  "))
		}
		if i := firstDifference(seen, notes); i >= 0 && !ref.gaveUp {
			t.Fatalf("%s: routers see differently\nreference:\n  %s\nengine:\n  %s", name, strings.Join(around(seen, i), "\n  "), strings.Join(around(notes, i), "\n  "))
		}
		// Something without an event may have been due later.
		if ref.res.End < res.End {
			ref.res.End = res.End
		}
		if d := cmp.Diff(ref.res, res); d != "" && !ref.gaveUp {
			t.Fatalf("%s: results differ (-reference +engine):\n%s", name, d)
		}
		if n := res.Completed + res.Rejected + res.Aborted + res.Unfinished; n != res.Arrived {
			t.Fatalf("%s: %d of %d requests accounted for: %+v", name, n, res.Arrived, res)
		}
	}
}

func firstDifference(a, b []string) int {
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) || a[i] != b[i] {
			return i
		}
	}
	return -1
}

func around(log []string, i int) []string {
	return slices.Clone(log[max(0, i-3):min(len(log), i+2)])
}

// scenarios is how many seeds of each kind the tests run; SERVESIM_SCENARIOS
// overrides it.
func scenarios(t *testing.T, def int) uint64 {
	if s := os.Getenv("SERVESIM_SCENARIOS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatalf("SERVESIM_SCENARIOS: %v", err)
		}
		return uint64(n)
	}
	return uint64(def)
}

func TestEngineEqualsReference(t *testing.T) {
	for kind := range kinds {
		t.Run([]string{"chaos", "continuous", "orca", "chunked", "batch"}[kind], func(t *testing.T) {
			t.Parallel()
			for seed := range scenarios(t, 120) {
				scenario{seed: seed, kind: kind}.compare(t)
			}
		})
	}
}

func FuzzEngineEqualsReference(f *testing.F) {
	for kind := range kinds {
		f.Add(uint64(1_000_003*kind), kind)
	}
	f.Add(uint64(1_999_885), 0) // swapped in, evicted, admitted and evicted again in one pass
	f.Fuzz(func(t *testing.T, seed uint64, kind int) {
		if kind < 0 || kind >= kinds {
			return
		}
		scenario{seed: seed, kind: kind}.compare(t)
	})
}
