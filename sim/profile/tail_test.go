package profile_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"servesim/sim/profile"
	"servesim/sim/trace"
)

// Above p95 of the burst is one request, and its queue is what it has more.
func TestTailOfTheBurst(t *testing.T) {
	r := analyse(t, burst(), profile.Options{})
	for _, tail := range r.Tails {
		if d := cmp.Diff([]string{"burst-10"}, tail.IDs); d != "" || tail.N != 1 || tail.Rest != 9 {
			t.Errorf("%s: %d against %d (-want +got):\n%s", tail.Metric, tail.N, tail.Rest, d)
		}
		first := tail.Excess[0]
		if first.Phase != "queue" || first.TailMs != 520 || !near(first.RestMs, 997.0/9) || !near(first.Share, 1) {
			t.Errorf("%s: excess %+v", tail.Metric, first)
		}
		for _, f := range tail.Factors {
			if f.Distinct {
				t.Errorf("%s: one request tells %+v apart", tail.Metric, f)
			}
		}
	}
	if !near(r.Tails[0].ThresholdMs, 659.5) || !near(r.Tails[1].ThresholdMs, 2067.5) {
		t.Errorf("thresholds %v and %v", r.Tails[0].ThresholdMs, r.Tails[1].ThresholdMs)
	}
	if s := text(t, &r); !has(s, "Above p95 of TTFT, 659.5 ms: 1 request against 9 slowest burst-10 excess 409.2 ms in the mean: queue 100 % (520.0 against 110.8 ms)") {
		t.Errorf("%s", s)
	}
}

// documents are slow because their prompts are long; everything else about
// them is as with the chats.
func documents(t *testing.T, seed int) profile.Report {
	t.Helper()
	p, err := profile.New(profile.Options{Tail: 0.9})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 300 {
		k := (i*7919 + seed) % 300 // some order
		e := trace.Entry{Record: record(fmt.Sprint(i), 200+k%50, 100+k%7, 1000*float64(i), 5, 1, float64(k%11), 40, 10, 5, 200)}
		e.Details = trace.Details{Class: "chat", Route: fmt.Sprint("replica-", k/10%2), HasCached: true, CachedTokens: 64}
		if k%10 == 0 {
			e.Record = record(fmt.Sprint(i), 9000+k, 100+k%7, 1000*float64(i), 5, 1, float64(k%11), 900, 10, 5, 200)
			e.Details.Class, e.Details.CachedTokens = "document", 0
		}
		if err := p.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	r, err := p.Report()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestTailFactors(t *testing.T) {
	r := documents(t, 1)
	tail := r.Tails[0]
	if tail.N != 30 || tail.Rest != 270 || tail.Excess[0].Phase != "prefill" {
		t.Fatalf("%d against %d, excess %+v", tail.N, tail.Rest, tail.Excess)
	}
	var sum profile.Number
	for _, e := range tail.Excess {
		sum += e.TailMs - e.RestMs
	}
	if !near(sum, float64(tail.MeanMs-tail.RestMeanMs)) {
		t.Errorf("the parts add up to %v of %v", sum, tail.MeanMs-tail.RestMeanMs)
	}
	distinct := map[string]bool{}
	for _, f := range tail.Factors {
		if f.Distinct {
			distinct[f.Name] = true
		}
	}
	want := map[string]bool{"prompt_tokens": true, "uncached_tokens": true, "class=document": true, "cache=miss": true}
	if d := cmp.Diff(want, distinct); d != "" {
		t.Errorf("distinct (-want +got):\n%s", d)
	}
	for _, f := range tail.Factors {
		switch f.Name {
		case "prompt_tokens":
			if !near(f.Separation, 1) || f.Tail < 9000 || f.Rest > 250 {
				t.Errorf("%+v", f)
			}
		case "class=document":
			if f.Tail != 1 || f.Rest != 0 || !near(f.Separation, 1) {
				t.Errorf("%+v", f)
			}
		}
	}
	if s := text(t, &r); !has(s, "class=document 100 % against 0 %") || !has(s, "cache=miss 100 % against 0 %") {
		t.Errorf("%s", s)
	}
}

// The load at which a request is sent is a factor; ends at that instant have
// left, other arrivals at it count.
func TestInFlight(t *testing.T) {
	var records []trace.Record
	for i := range 100 { // alone, 20 ms each
		records = append(records, record(fmt.Sprint("alone-", i), 10, 2, 20*float64(i), 0, 0, 5, 5, 0, 0, 10))
	}
	for i := range 20 { // all at once
		records = append(records, record(fmt.Sprint("burst-", i), 10, 2, 5000, 0, 0, 50+float64(i), 5, 0, 0, 10))
	}
	r := analyse(t, records, profile.Options{Tail: 0.8})
	i := -1
	for k, f := range r.Tails[0].Factors {
		if f.Name == "in_flight" {
			i = k
		}
	}
	if i < 0 {
		t.Fatalf("no in_flight in %+v", r.Tails[0].Factors)
	}
	if f := r.Tails[0].Factors[i]; f.Tail != 19 || f.Rest != 0 || !near(f.Separation, 1) || !f.Distinct {
		t.Errorf("%+v", f)
	}
}

// Where the slowest tie at the threshold, they are the tail.
func TestTailTies(t *testing.T) {
	var records []trace.Record
	for i := range 20 {
		queue := 1.0
		if i >= 10 {
			queue = 9
		}
		records = append(records, record(fmt.Sprint(i), 1, 2, 0, 0, 0, queue, 0, 0, 0, 0))
	}
	tail := analyse(t, records, profile.Options{}).Tails[0]
	if tail.ThresholdMs != 9 || tail.N != 10 || tail.Rest != 10 {
		t.Errorf("%+v", tail)
	}
	all := analyse(t, records[:10], profile.Options{}).Tails[0]
	if all.N != 10 || all.Rest != 0 || all.RestMeanMs.Defined() || len(all.Factors) != 0 {
		t.Errorf("all alike: %+v", all)
	}
}

// The value that counts is the one the tail has in excess, not its most
// frequent one; the slowest are named first, and ten at most.
func TestTailNames(t *testing.T) {
	p, err := profile.New(profile.Options{Tail: 0.8})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		e := trace.Entry{Record: record(fmt.Sprint(i), 1, 2, 0, 0, 0, float64(i*37%100), 0, 0, 0, 0), Details: trace.Details{Class: "common"}}
		if k := i * 37 % 100; k >= 92 || k < 8 {
			e.Details.Class = "rare" // 8 of the 20 slowest, 8 of the 80 others
		}
		if err := p.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	r, err := p.Report()
	if err != nil {
		t.Fatal(err)
	}
	tail := r.Tails[0]
	if !slices.ContainsFunc(tail.Factors, func(f profile.Factor) bool { return f.Name == "class=rare" && f.Tail == 0.4 && f.Rest == 0.1 }) {
		t.Errorf("%+v", tail.Factors)
	}
	var want []string // i with i·37 = 99, 98, … modulo 100; 73 is the inverse of 37
	for k := 99; k > 89; k-- {
		want = append(want, fmt.Sprint(k*73%100))
	}
	if d := cmp.Diff(want, tail.IDs); d != "" || tail.N != 20 {
		t.Errorf("%d in the tail (-want +got):\n%s", tail.N, d)
	}
	if s := text(t, &r); !has(s, "slowest 27 54 81 8 35 62 89 16 43 70 …") {
		t.Errorf("%s", s)
	}
}

// Sets that differ by chance only are not told apart: over many draws a factor
// is distinct about once in a thousand times.
func TestChanceIsNotDistinct(t *testing.T) {
	found, of := 0, 0
	for seed := range 60 {
		var records []trace.Record
		for i := range 400 {
			x := math.Mod(float64(i*i)*0.6180339887+float64(seed)*0.7548776662, 1)
			y := math.Mod(float64(i)*math.Sqrt2*float64(seed+3)+float64(i*i)*0.5497004779, 1)
			records = append(records, record(fmt.Sprint(i), 1+int(1000*x), 1+int(1000*y), 1e5*float64(i), 0, 0, math.Mod(float64(i)*0.7320508+float64(i*i*seed)*0.3719, 1), 0, 0, 0, 0))
		}
		for _, f := range analyse(t, records, profile.Options{}).Tails[0].Factors {
			of++
			if f.Distinct {
				found++
			}
		}
	}
	if of < 100 || found > 2 {
		t.Errorf("%d of %d factors are distinct without a cause", found, of)
	}
}

// A phase that a request lacks is compared with nothing.
func TestTailOfPartialRecords(t *testing.T) {
	records := burst()
	records[9].PrefillStart = trace.Unknown
	tail := analyse(t, records, profile.Options{Partial: true}).Tails[0]
	var names []string
	for _, e := range tail.Excess {
		names = append(names, e.Phase)
	}
	if got := strings.Join(names, " "); got != "residual network_in gateway first_decode network_to_first" {
		t.Errorf("excess of %s", got)
	}
	if e := tail.Excess[0]; e.TailMs != 665 || !near(e.RestMs, 997.0/9+145) { // queue and prefill
		t.Errorf("%+v", e)
	}
}
