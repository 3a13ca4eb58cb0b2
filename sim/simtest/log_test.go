package simtest_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"servesim/scheduler"
	"servesim/sim"
	"servesim/sim/simtest"
)

func TestDiff(t *testing.T) {
	lines := strings.Fields("a b c d e f g")
	for _, c := range []struct {
		name      string
		want, got []string
		diff      string
	}{
		{"equal", lines, lines, ""},
		{"both empty", nil, nil, ""},
		{"a line", lines, strings.Fields("a b c d e X g"),
			"logs of 7 (-want) and 7 (+got) lines differ at line 6:\n  b\n  c\n  d\n  e\n- f\n- g\n+ X\n+ g\n"},
		{"shorter", lines[:3], lines[:2],
			"logs of 3 (-want) and 2 (+got) lines differ at line 3:\n  a\n  b\n- c\n+ (end of log)\n"},
		{"longer", nil, lines,
			"logs of 0 (-want) and 7 (+got) lines differ at line 1:\n- (end of log)\n+ a\n+ b\n"},
	} {
		if got := simtest.Diff(c.want, c.got); got != c.diff {
			t.Errorf("%s: got %q, want %q", c.name, got, c.diff)
		}
	}
}

// One request of two tokens in steps of 10 ns.
func TestLog(t *testing.T) {
	const without = `5 r-1 arrive #1 id 3 class 0 prompt 4
5 r0 queue #1 id 3
5 r0 admit #1 id 3
15 r0 prefill-end #1 id 3
15 r0 first-token #1 id 3
15 r0 step 1 took 10: 0 decodes context 0, prefills [{4 0 true}], padding 0+0, 1 tokens, gaps [], free 9223372036854775806 waiting 0 running 1
25 r0 finish #1 id 3 stop: 2 tokens, queued 5 admitted 5 prefilled 15 first 15, 0 preemptions, 0 gaps over
25 r0 step 2 took 10: 1 decodes context 4, prefills [], padding 0+0, 1 tokens, gaps [{15ns 0 1}], free 9223372036854775806 waiting 0 running 1
25 end
`
	for _, c := range []struct {
		times bool
		want  string
	}{
		{false, without},
		{true, strings.Replace(without, "0 gaps over\n", "0 gaps over\ntokens 15 25\n", 1)},
	} {
		log := &simtest.Log{TokenTimes: c.times}
		if got := log.String(); got != "" {
			t.Errorf("an empty log is %q", got)
		}
		_, err := sim.Run(context.Background(), sim.Config{
			Replicas:   []sim.Replica{{Scheduler: scheduler.Continuous{}, CostModel: sim.CostFunc(func(sim.Batch) time.Duration { return 10 })}},
			TokenTimes: true,
			Observers:  []sim.Observer{log},
		}, func(yield func(sim.Request, error) bool) {
			yield(sim.Request{ID: 3, Arrival: 5, Prompt: 4, Output: 2}, nil)
		})
		if err != nil {
			t.Fatal(err)
		}
		if d := simtest.Diff(strings.Split(c.want, "\n"), strings.Split(log.String(), "\n")); d != "" {
			t.Error(d)
		}
	}
}
