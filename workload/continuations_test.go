package workload_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"servesim/sim"
	"servesim/sim/kv"
	"servesim/workload"
)

// A conversation of three turns, of which the last is sent twice, and one beside
// it that is continued in two ways, of which one counts. Blocks of 4 tokens.
func TestContinuations(t *testing.T) {
	at := func(seconds int, prompt int, chain ...kv.Hash) sim.Request {
		return sim.Request{Arrival: sim.Time(seconds) * 1e9, Prompt: prompt, Prefix: chain, PrefixBlock: 4}
	}
	requests := []sim.Request{
		at(0, 10, 1, 2, 3),           // 1 2 must be found
		at(1, 12, 1, 9, 8),           // shares one block: another conversation
		at(3, 20, 1, 2, 4, 5, 6),     // goes on after 3 s
		at(10, 24, 1, 2, 4, 5, 7, 0), // goes on after 7 s
		at(11, 24, 1, 2, 4, 5, 7, 0), // the same again: all but the last of the one before
		at(12, 16, 1, 2, 4, 5),       // nobody ends so
		at(13, 8, 1, 9),              // goes on what began at 1 s, of which it has all but the last
		at(14, 6, 1, 9),              // continued already
		at(15, 4, 1),
		{Arrival: 16e9, Prompt: 5},
	}
	got, err := workload.DescribeContinuations(workload.FromSlice(requests))
	want := workload.Continuations{Requests: 4, Share: .4, GapP10: 1.6, GapP50: 5, GapP90: 10.5, Longest: 3}
	if diff := cmp.Diff(want, got, closeTo); diff != "" || err != nil {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
	got, err = workload.DescribeContinuations(workload.FromSlice(nil))
	if diff := cmp.Diff(workload.Continuations{Share: none, GapP10: none, GapP50: none, GapP90: none}, got, closeTo); diff != "" || err != nil {
		t.Errorf("no requests: error %v (-want +got):\n%s", err, diff)
	}
}

func TestContinuationErrors(t *testing.T) {
	one, other := sim.Request{ID: 3, Prompt: 16, Prefix: []kv.Hash{1}, PrefixBlock: 16}, sim.Request{ID: 4, Prompt: 16, Prefix: []kv.Hash{1}, PrefixBlock: 8}
	_, err := workload.DescribeContinuations(workload.FromSlice([]sim.Request{one, other}))
	if errText(err) != "workload: request 4 has prompt 16, prefix in blocks of 8, others of 16" {
		t.Errorf("error %v", err)
	}
	broken := errors.New("broken")
	if _, err := workload.DescribeContinuations(func(yield func(sim.Request, error) bool) { yield(one, broken) }); err != broken {
		t.Errorf("error %v", err)
	}
}

// The figures published with the recordings, which are counted so: 3,930 there,
// one less, of the conversation. Were a request continued by all that can, they
// would be 3,974 and 1,444, with longer gaps.
func TestRecordedContinuations(t *testing.T) {
	for name, want := range map[string]string{
		"conversation": "3931 (32.7 %), gaps 42 123 474 s, 42 in a row",
		"synthetic":    "1336 (33.5 %), gaps 3.86 45.9 258 s, 23 in a row",
	} {
		m := recorded(t, name)
		m.PartialIDs = true
		c, err := workload.DescribeContinuations(m.Requests())
		got := fmt.Sprintf("%d (%.1f %%), gaps %.3g %.3g %.3g s, %d in a row", c.Requests, 100*c.Share, c.GapP10, c.GapP50, c.GapP90, c.Longest)
		if got != want || err != nil {
			t.Errorf("%s: %s, want %s; error %v", name, got, want, err)
		}
	}
}
