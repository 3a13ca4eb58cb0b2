package workload_test

import (
	"context"
	"fmt"
	"iter"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/costmodel"
	"servesim/scheduler"
	"servesim/sim"
	"servesim/sim/kv"
	"servesim/workload"
)

// recorded is a public recording of Mooncake.
func recorded(t testing.TB, name string) workload.Mooncake {
	t.Helper()
	return workload.Mooncake{Path: shared(t, "recordings/mooncake_fast25_"+name+"_trace.jsonl.gz")}
}

func TestMooncakeFormatExample(t *testing.T) {
	m := workload.Mooncake{Path: shared(t, "recordings/format_examples/mooncake.jsonl")}
	hashes := func(ids ...uint64) []kv.Hash { return kv.HashIDs(nil, ids, m.Path) }
	want := []sim.Request{
		{ID: 0, Arrival: 0, Prompt: 1100, Output: 40, Prefix: hashes(0, 1), PrefixBlock: 512},
		{ID: 1, Arrival: 3e9, Prompt: 1600, Output: 12, Prefix: hashes(0, 1, 3), PrefixBlock: 512},
	}
	if diff := cmp.Diff(want, collect(t, m.Requests())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The figures published with the recordings, to the digits printed there. Their
// rates are of gaps, one less than requests. The 25th percentile of the output
// of the conversation is 156.5, printed as 157 there.
func TestMooncakeRecordings(t *testing.T) {
	for name, want := range map[string]string{
		"conversation": "12031 rows, 3537 s, 3.401/s, CV 3.03, IDC 7.9 2.1 2.9, Spearman 0.07, " +
			"prompt 12035 1.31 891 901 2306 6909 27367 39550 85400 121301 126195, output 343 0.73 1 10 156 350 597 698 1119 2000 2000",
		"synthetic": "3993 rows, 1022 s, 3.906/s, CV 1.01, IDC 1.1 1.2 1.2, Spearman -0.52, " +
			"prompt 15325 1.20 13 22 277 11587 38611 48905 66456 191373 191378, output 149 1.19 1 2 11 69 389 519 768 813 893",
	} {
		var counts workload.Counts
		m := recorded(t, name)
		m.Counts = &counts
		d := mustDescribe(t, m.Requests())
		got := fmt.Sprintf("%d rows, %.0f s, %.3f/s, CV %.3g, IDC %.1f %.1f %.1f, Spearman %.2f, prompt %.0f %s, output %.0f %s",
			d.Requests, d.Span, float64(d.Requests-1)/float64(d.Span), d.GapCV, d.IDC1, d.IDC10, d.IDC60, d.Spearman,
			d.Prompt.Mean, percentiles(d.Prompt), d.Output.Mean, percentiles(d.Output))
		if got != want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, want)
		}
		if want := (workload.Counts{Read: d.Requests, Emitted: d.Requests}); counts != want {
			t.Errorf("%s: counts %+v, want %+v", name, counts, want)
		}
	}
}

// The ticks of the conversation recording: 1,180 distinct timestamps 2,997 to
// 3,003 ms apart. Spread over 3 s its rows come nearly evenly and as often.
func TestMooncakeTicks(t *testing.T) {
	m := recorded(t, "conversation")
	ticks, last := 1, sim.Time(0)
	for _, q := range collect(t, m.Requests()) {
		if gap := q.Arrival.Sub(last); gap > 0 {
			ticks++
			if gap < 2997*time.Millisecond || gap > 3003*time.Millisecond {
				t.Errorf("request %d comes %v after the tick before", q.ID, gap)
			}
		}
		last = q.Arrival
	}
	if ticks != 1180 {
		t.Errorf("%d ticks, want 1180", ticks)
	}
	m.Spread = 3 * time.Second
	d := mustDescribe(t, m.Requests())
	if d.Requests != 12031 || math.Abs(float64(d.Rate)-3.401) > .004 || d.GapCV > .5 || d.IDC1 > .8 {
		t.Errorf("spread: %d requests at %v/s, gap CV %v, IDC(1 s) %v", d.Requests, d.Rate, d.GapCV, d.IDC1)
	}
}

// sequential counts what an unlimited cache finds when requests come one after
// the other: tokens of full recorded blocks seen before, never the last token
// of a prompt, in whole blocks of the cache.
func sequential(requests []sim.Request, blockTokens int) (hits, prompts int64) {
	seen := map[kv.Hash]bool{}
	for _, q := range requests {
		found := 0
		for found < len(q.Prefix) && seen[q.Prefix[found]] {
			found++
		}
		for _, h := range q.Prefix {
			seen[h] = true
		}
		hits += int64(min(found*q.PrefixBlock, (q.Prompt-1)/blockTokens*blockTokens))
		prompts += int64(q.Prompt)
	}
	return hits, prompts
}

// replay runs requests through one replica with unlimited memory.
func replay(t testing.TB, requests iter.Seq2[sim.Request, error], blockTokens, budget int) sim.Result {
	t.Helper()
	r, err := sim.Run(context.Background(), sim.Config{Replicas: []sim.Replica{{
		Scheduler: scheduler.ChunkedPrefill{},
		CostModel: costmodel.Linear{Fixed: 5 * time.Millisecond, PerPromptToken: 2 * time.Microsecond, PerDecode: 20 * time.Microsecond},

		PrefixCache: true, BlockTokens: blockTokens, MaxBatchTokens: budget,
	}}}, requests)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The engine finds what the recordings share: of all prompt tokens .3734 and
// .6504, where counting ids gives .3736 and .6512. Ids also name partial
// blocks, which are not shared. Nothing else is lost: no prompt that fills its
// last block is found whole, so that the last token, which is always computed,
// costs no block; and the requests of a tick find each other's blocks, as the
// policy admits none before all of its predecessor's prompt is planned. Smaller
// blocks find the same tokens: the recording says nothing of their insides.
func TestMooncakePrefixHits(t *testing.T) {
	for _, c := range []struct {
		name        string
		requests    int
		blockTokens int
		budget      int
		speed       float64
		share       float64 // of all prompt tokens; 0 where the recording is cut
	}{
		{"conversation", 12031, 512, 8192, 1, .3734},
		{"conversation", 300, 16, 8192, 1, 0},
		{"synthetic", 3993, 512, 0, .1, .6504},
		{"synthetic", 500, 16, 8192, .1, 0},
	} {
		requests := collect(t, workload.Take(recorded(t, c.name).Requests(), c.requests))
		r := replay(t, workload.Speed(workload.FromSlice(requests), c.speed), c.blockTokens, c.budget)
		hits, prompts := sequential(requests, c.blockTokens)
		if r.PrefixHits != hits || r.PrefixHits+r.PrefillTokens+r.DecodePositions != prompts+r.Tokens-int64(c.requests) {
			t.Errorf("%+v: %d hits of %d, want %d; result %+v", c, r.PrefixHits, prompts, hits, r)
		}
		share := float64(r.PrefixHits) / float64(prompts)
		if int(r.Completed) != c.requests || c.share > 0 && math.Abs(share-c.share) > .00005 {
			t.Errorf("%+v: %d completed, share %.5f", c, r.Completed, share)
		}
	}
}
