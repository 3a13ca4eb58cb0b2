package sim_test

import (
	"context"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/scheduler"
	"servesim/sim"
)

// ledgers runs cfg and returns the ledger of each request that ends, after
// checking that it adds up.
func ledgers(t *testing.T, cfg sim.Config, reqs []sim.Request) map[int]sim.Ledger {
	t.Helper()
	out := map[int]sim.Ledger{}
	cfg.Ledgers = true
	cfg.Observers = append(cfg.Observers, sim.ObserverFunc(func(e sim.Event) {
		switch e.Kind {
		case sim.Finish, sim.Reject, sim.Abort:
			l := e.Ledger()
			out[e.ID] = l
			first := e.Timeline.FirstToken
			if first == sim.NoTime {
				first = e.Time
			}
			if l.ToFirst() != first.Sub(e.Timeline.Arrival) || l.ToFirst()+l.ToLast() != e.Time.Sub(e.Timeline.Arrival) {
				t.Errorf("request %d (%v, arrival %d, first %d, end %d): %v to the first token, %v behind it: %+v",
					e.ID, e.Kind, int64(e.Timeline.Arrival), int64(first), int64(e.Time), l.ToFirst(), l.ToLast(), l)
			}
			if part, d := negative(reflect.ValueOf(l)); d < 0 {
				t.Errorf("request %d: %s is %v: %+v", e.ID, part, d, l)
			}
		}
	}))
	// A policy drawn at random may get stuck; what ended until then counts.
	sim.Run(context.Background(), cfg, slice(reqs))
	return out
}

// negative returns a part of a ledger that cannot be.
func negative(v reflect.Value) (part string, d time.Duration) {
	for i := range v.NumField() {
		switch f, name := v.Field(i), v.Type().Field(i).Name; {
		case f.Kind() == reflect.Struct:
			if part, d = negative(f); d < 0 {
				return part, d
			}
		case f.Kind() == reflect.Int64 && f.Int() < 0 && name != "Interference":
			return name, time.Duration(f.Int())
		}
	}
	return "", 0
}

// One request after the other in one slot, steps of 10 ms and 1 ms per prompt
// token more.
func TestLedgerOfAQueue(t *testing.T) {
	cost := sim.CostFunc(func(b sim.Batch) time.Duration { return 10*ms + time.Duration(b.PrefillTokens())*ms })
	cfg := sim.Config{Check: true, Replicas: []sim.Replica{{Scheduler: scheduler.VLLM1{}, CostModel: cost, MaxSeqs: 2, MaxBatchTokens: 20, BlockTokens: 10, KVBlocks: 100}}}
	got := ledgers(t, cfg, []sim.Request{
		{ID: 1, Prompt: 10, Output: 3},                            // 20 ms, then beside the second: 29, 10
		{ID: 2, Arrival: sim.Time(5 * ms), Prompt: 30, Output: 2}, // chunks of 19 and 11
		{ID: 3, Arrival: sim.Time(6 * ms), Prompt: 5, Output: 1},
		{ID: 4, Arrival: sim.Time(6 * ms), Prompt: 5, Output: 1},
	})
	// Passes at 0, 20, 49, 70, 80. At 20 the second takes what the first leaves
	// of the budget; at 49 the first has its last token in a step with the
	// second's last chunk (11 tokens, 21 ms), at 70 the first is gone.
	want := map[int]sim.Ledger{
		1: {Prefill: sim.PrefillTime{Compute: 20 * ms}, Stream: sim.StreamTime{Decode: 20 * ms, Interference: 30 * ms}},
		2: {Queue: sim.QueueTime{Step: 15 * ms}, Prefill: sim.PrefillTime{Compute: 50 * ms}, Stream: sim.StreamTime{Decode: 10 * ms, Interference: 5 * ms}},
		// Nobody but the budget stops the third at 20 ms, the slots do at 49.
		3: {Queue: sim.QueueTime{Step: 14 * ms, Tokens: 29 * ms, Slots: 21 * ms}, Prefill: sim.PrefillTime{Compute: 15 * ms}},
		4: {Queue: sim.QueueTime{Step: 14 * ms, Order: 50 * ms, Slots: 15 * ms}, Prefill: sim.PrefillTime{Compute: 15 * ms}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("ledgers (-want +got):\n%s", d)
	}
}

func TestLedgerOfATransfer(t *testing.T) {
	// C = 40 ms, X = 100 ms, D = 7 ms; two prompts complete 10 ms apart.
	for _, tt := range []struct {
		side sim.FirstTokenSide
		want map[int]sim.Ledger
	}{
		{sim.FirstFromPrefill, map[int]sim.Ledger{
			1: {LateTransfer: true, Prefill: sim.PrefillTime{Compute: 40 * ms}, Transfer: sim.TransferTime{Wire: 100 * ms, Contention: 90 * ms},
				FirstDecode: sim.FirstDecodeTime{Compute: 7 * ms}, Stream: sim.StreamTime{Decode: 7 * ms}},
			2: {LateTransfer: true, Prefill: sim.PrefillTime{Compute: 40 * ms}, Transfer: sim.TransferTime{Wire: 100 * ms, Contention: 90 * ms},
				FirstDecode: sim.FirstDecodeTime{Queue: 4 * ms, Compute: 7 * ms}, Stream: sim.StreamTime{Decode: 7 * ms}},
		}},
		{sim.FirstFromDecode, map[int]sim.Ledger{
			1: {Prefill: sim.PrefillTime{Compute: 40 * ms}, Transfer: sim.TransferTime{Wire: 100 * ms, Contention: 90 * ms},
				FirstDecode: sim.FirstDecodeTime{Compute: 7 * ms}, Stream: sim.StreamTime{Decode: 14 * ms}},
			2: {Prefill: sim.PrefillTime{Compute: 40 * ms}, Transfer: sim.TransferTime{Wire: 100 * ms, Contention: 90 * ms},
				FirstDecode: sim.FirstDecodeTime{Queue: 4 * ms, Compute: 7 * ms}, Stream: sim.StreamTime{Decode: 14 * ms}},
		}},
	} {
		cfg := split(2, 1, sim.Link{Bandwidth: 10e9}, func(r *sim.Replica) { r.FirstToken = tt.side })
		got := ledgers(t, cfg, []sim.Request{{ID: 1, Prompt: 1000, Output: 3}, {ID: 2, Arrival: sim.Time(10 * ms), Prompt: 1000, Output: 3}})
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("side %d: ledgers (-want +got):\n%s", tt.side, d)
		}
	}
}

// Ledgers add up whatever happens, and change nothing.
func TestLedgersAddUp(t *testing.T) {
	for kind := range kinds {
		for seed := range scenarios(t, 40) {
			sc := scenario{seed: seed, kind: kind}
			cfg, _ := sc.config(func(string) {})
			with := &eventLog{}
			cfg.Observers = []sim.Observer{with}
			ledgers(t, cfg, sc.requests())
			without, _, _, _ := sc.engineRun(false)
			if d := cmp.Diff(without, []string(*with)); d != "" {
				t.Fatalf("%+v: the log with ledgers differs:\n%s", sc, d)
			}
			if t.Failed() {
				t.Fatalf("%+v", sc)
			}
		}
	}
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 5))
		cfg := split(1+rng.IntN(2), 1+rng.IntN(2), sim.Link{Bandwidth: 1e9 * float64(1+rng.IntN(50)), Layers: rng.IntN(3) * 4}, func(r *sim.Replica) {
			r.KVBlocks, r.MaxBatchTokens, r.FirstToken = 60+rng.IntN(60), 50+rng.IntN(100), sim.FirstTokenSide(rng.IntN(2))
			if r.Role == sim.RoleDecode && rng.IntN(3) == 0 {
				r.InFlight = 2
				r.Async = sim.Async(rng.IntN(3))
			}
		})
		var reqs []sim.Request
		for i := range 40 {
			q := sim.Request{ID: i, Arrival: sim.Time(i) * sim.Time(3*ms), Prompt: 1 + rng.IntN(300), Output: 1 + rng.IntN(30)}
			if rng.IntN(6) == 0 {
				q.Patience.Total = time.Duration(rng.IntN(200)) * ms
			}
			reqs = append(reqs, q)
		}
		ledgers(t, cfg, reqs)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
