package scheduler_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"servesim/scheduler"
	"servesim/sim"
	"servesim/sim/kv"
)

// small makes a replica with so many blocks of 4 tokens.
func small(blocks int) func(int) sim.Replica {
	return func(int) sim.Replica {
		return sim.Replica{Scheduler: scheduler.ChunkedPrefill{}, KVBlocks: blocks, BlockTokens: 4, CostModel: flat}
	}
}

// tiny carries a token in 10 µs.
var tiny = sim.Link{TokenBytes: 1000, Bandwidth: 1e8}

// lives runs rs on a deployment and returns when each request is pulled, admitted
// where it decodes, preempted, and how it ends, in ms.
func lives(t *testing.T, d filler, rs ...sim.Request) map[int][]string {
	t.Helper()
	out := map[int][]string{}
	cfg := sim.Config{Check: true, Observers: []sim.Observer{sim.ObserverFunc(func(e sim.Event) {
		switch e.Kind {
		case sim.Pull, sim.Preempt, sim.Finish, sim.Reject, sim.Abort:
		case sim.Admit:
			if e.Replica == 0 {
				return
			}
		default:
			return
		}
		s := fmt.Sprintf("%v %.2f", e.Kind, e.Time.Seconds()*1e3)
		if e.Kind == sim.Reject {
			s += " " + e.Reason
		}
		out[e.ID] = append(out[e.ID], s)
	})}}
	d.Fill(&cfg)
	if _, err := sim.Run(context.Background(), cfg, requests(rs...)); err != nil {
		t.Error(err)
	}
	return out
}

// A decode side of 12 blocks. Requests 1 and 2 are pulled at 1 ms and decode from
// 1.4 ms on in 5 blocks and one more each; there is no room for 3. At 5.4 ms both
// want another: 2 is preempted and needs 7 for its prompt and five tokens, of 5.
// Only when 1 has ended does it go on, and 3 is pulled behind it.
func TestPullKeepsTheOrder(t *testing.T) {
	d := scheduler.Disaggregated{Prefill: 1, Decode: 1, PrefillReplica: small(100), DecodeReplica: small(12), Link: tiny}
	got := lives(t, d,
		sim.Request{ID: 1, Prompt: 20, Output: 8}, sim.Request{ID: 2, Prompt: 20, Output: 8},
		sim.Request{ID: 3, Arrival: at(0.5), Prompt: 16, Output: 2})
	want := map[int][]string{
		1: {"pull 1.00", "admit 1.40", "finish 8.40"},
		2: {"pull 1.00", "admit 1.40", "preempt 5.40", "admit 8.40", "finish 11.40"},
		3: {"pull 8.40", "admit 9.40", "finish 10.40"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// The same for prompts that are sent while they are computed: of request 3, which
// is admitted on the prefill side at 6 ms, nothing is fetched before 2 goes on.
func TestPullKeepsTheOrderOfWhatComes(t *testing.T) {
	d := scheduler.Disaggregated{Prefill: 1, Decode: 1, PrefillReplica: small(100), DecodeReplica: small(12), Link: tiny}
	d.Link.Layers = 4
	got := lives(t, d,
		sim.Request{ID: 1, Prompt: 20, Output: 8}, sim.Request{ID: 2, Prompt: 20, Output: 8},
		sim.Request{ID: 3, Arrival: at(6), Prompt: 16, Output: 2})
	want := map[int][]string{
		1: {"pull 0.00", "admit 1.10", "finish 8.10"}, // a quarter of 0.2 ms each is left to send
		2: {"pull 0.00", "admit 1.10", "preempt 5.10", "admit 8.10", "finish 11.10"},
		3: {"pull 8.10", "admit 9.10", "finish 10.10"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// While something runs, nobody overtakes: 3, whose KV comes at 4.24 ms and which
// has no slot then, waits behind 1, which is preempted at 9.16 ms and does not fit.
func TestPulledRequestsWaitBehindThePreempted(t *testing.T) {
	slots := func(i int) sim.Replica {
		r := small(12)(i)
		r.MaxSeqs = 2
		return r
	}
	d := scheduler.Disaggregated{Prefill: 1, Decode: 1, PrefillReplica: small(100), DecodeReplica: slots, Link: tiny}
	got := lives(t, d,
		sim.Request{ID: 1, Prompt: 16, Output: 20}, sim.Request{ID: 2, Prompt: 8, Output: 20},
		sim.Request{ID: 3, Arrival: at(3), Prompt: 8, Output: 3})
	want := map[int][]string{
		1: {"pull 1.00", "admit 2.16", "preempt 9.16", "admit 20.16", "finish 32.16"},
		2: {"pull 1.00", "admit 1.16", "finish 20.16"},
		3: {"pull 4.16", "admit 20.16", "finish 22.16"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// Of 12 blocks 6 stay free while something runs: 2 has to wait until 1 has ended.
func TestPullHeadroom(t *testing.T) {
	for headroom, want := range map[float64]string{0: "pull 3.20", 0.4: "pull 3.20", 0.5: "pull 5.20"} {
		d := scheduler.Disaggregated{Prefill: 1, Decode: 1, PrefillReplica: small(100), DecodeReplica: small(12), Link: tiny, Headroom: headroom}
		got := lives(t, d, sim.Request{ID: 1, Prompt: 20, Output: 5}, sim.Request{ID: 2, Arrival: at(2), Prompt: 8, Output: 2})
		if got[2][0] != want {
			t.Errorf("headroom %v: %v, want %s", headroom, got[2], want)
		}
	}
}

// A decode side of 8 blocks, and a link that carries a token in 1 ms. Request 1
// decodes from 17 ms on in its 4 blocks and a fifth; 2 holds 3, to be filled by
// 29 ms. At 21 ms request 1 lacks a sixth, and needs 6 to go on, of 5. When the KV
// of 2 has come, 2 goes first, although it stands behind 1.
func TestPulledRequestsOvertakeWhereNothingRuns(t *testing.T) {
	d := scheduler.Disaggregated{Prefill: 1, Decode: 1, PrefillReplica: small(100), DecodeReplica: small(8), Link: sim.Link{TokenBytes: 1000, Bandwidth: 1e6}}
	got := lives(t, d, sim.Request{ID: 1, Prompt: 16, Output: 17}, sim.Request{ID: 2, Arrival: at(16), Prompt: 12, Output: 3})
	want := map[int][]string{
		1: {"pull 1.00", "admit 17.00", "preempt 21.00", "admit 31.00", "finish 43.00"},
		2: {"pull 17.00", "admit 29.00", "finish 31.00"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// The same with three behind the preempted one, which leaves 2 blocks: 2 and 3
// take them, and 4, which lacks one too, waits.
func TestPulledRequestsOvertakeInTurn(t *testing.T) {
	d := scheduler.Disaggregated{Prefill: 1, Decode: 1, PrefillReplica: small(100), DecodeReplica: small(8), Link: sim.Link{TokenBytes: 1000, Bandwidth: 1e6}}
	rs := []sim.Request{{ID: 1, Prompt: 3, Output: 10}}
	for id := 2; id < 5; id++ {
		rs = append(rs, sim.Request{ID: id, Arrival: at(4.5), Prompt: 8, Output: 3})
	}
	want := map[int][]string{
		1: {"pull 1.00", "admit 5.00", "preempt 10.00", "admit 32.00", "finish 36.00"},
		2: {"pull 6.00", "admit 30.00", "finish 32.00"},
		3: {"pull 6.00", "admit 30.00", "finish 32.00"},
		4: {"pull 6.00", "admit 32.00", "finish 34.00"},
	}
	if d := cmp.Diff(want, lives(t, d, rs...)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// Alone, a request that has all the memory of the decode side and needs more
// ends.
func TestPulledRequestThatCannotGrow(t *testing.T) {
	for side, want := range map[sim.FirstTokenSide][]string{
		sim.FirstFromPrefill: {"reject 1.00 out_of_kv"}, // its first token leaves no room for the second
		sim.FirstFromDecode:  {"pull 1.00", "admit 1.20", "preempt 2.20", "reject 2.20 out_of_kv"},
	} {
		d := scheduler.Disaggregated{Prefill: 1, Decode: 1, PrefillReplica: small(100), DecodeReplica: small(5), Link: tiny, FirstToken: side}
		got := lives(t, d, sim.Request{ID: 1, Prompt: 20, Output: 8}, sim.Request{ID: 2, Arrival: at(0.1), Prompt: 4, Output: 3})
		if d := cmp.Diff(want, got[1]); d != "" {
			t.Errorf("first token side %d (-want +got):\n%s", side, d)
		}
		if last := got[2][len(got[2])-1]; last[:6] != "finish" {
			t.Errorf("first token side %d: the other request: %v", side, got[2])
		}
	}
}

// Whatever the sizes, every request ends, and only those that are larger than the
// memory end for lack of it.
func TestPullAlwaysGoesOn(t *testing.T) {
	goesOn(t, func(s sim.Scheduler, _ *rand.Rand) sim.Scheduler { return s })
}

// So they do under a scheduler that pulls for itself.
func TestVLLM1AlwaysGoesOn(t *testing.T) {
	goesOn(t, func(_ sim.Scheduler, r *rand.Rand) sim.Scheduler {
		return scheduler.VLLM1{FirstChunk: r.IntN(2) == 0, Threshold: r.IntN(2) * 10, Priority: r.IntN(2) == 0, Reverse: r.IntN(2) == 0, Watermark: float64(r.IntN(2)) * 0.05}
	})
}

// goesOn runs random deployments that are short of memory.
func goesOn(t *testing.T, decode func(sim.Scheduler, *rand.Rand) sim.Scheduler) {
	t.Helper()
	ends := map[string]int{}
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		blocks, cached := 8+r.IntN(40), seed%4 == 3
		unit := func(blocks int) func(int) sim.Replica {
			seqs, budget := r.IntN(6), r.IntN(60)
			return func(int) sim.Replica {
				x := small(blocks)(0)
				x.MaxSeqs, x.MaxBatchTokens = seqs, budget
				return x
			}
		}
		d := scheduler.Disaggregated{
			Prefill: 1 + r.IntN(2), Decode: 1 + r.IntN(2), PrefillReplica: unit(blocks + r.IntN(40)), DecodeReplica: unit(blocks),
			Link: tiny, FirstToken: sim.FirstTokenSide(r.IntN(2)), Local: r.IntN(2) * r.IntN(60), Headroom: float64(r.IntN(2)) * r.Float64() / 2,
		}
		d.Link.Layers, d.Link.Bandwidth = r.IntN(2)*4, 1e6*(1+99*r.Float64())
		if r.IntN(3) == 0 {
			d.PrefillReplica, d.DecodeReplica = small(blocks+9), small(blocks)
		}
		var rs []sim.Request
		for id := range 40 {
			q := sim.Request{ID: id, Arrival: at(float64(id * r.IntN(4))), Prompt: 1 + r.IntN(4*blocks), Output: 1 + r.IntN(30)}
			if len(rs) > 0 {
				q.Arrival = max(q.Arrival, rs[len(rs)-1].Arrival)
			}
			if cached {
				q.PrefixBlock = 4
				for b := range q.Prompt / 4 {
					q.Prefix = append(q.Prefix, kv.Hash(1000*(id%2)+b+1))
				}
			}
			if r.IntN(8) == 0 {
				q.Patience.Total = 30 * ms
			}
			rs = append(rs, q)
		}
		cfg := sim.Config{Check: true, Observers: []sim.Observer{sim.ObserverFunc(func(e sim.Event) {
			switch e.Kind {
			case sim.Finish, sim.Abort, sim.Preempt, sim.Pulled:
				ends[e.Kind.String()]++
			case sim.Reject:
				ends[e.Reason]++
				q := rs[e.ID]
				if need := (q.Prompt + q.Output + 2) / 4; e.Reason == sim.RejectOutOfKV && need <= blocks {
					t.Errorf("seed %d: request %d needs %d of %d blocks and is rejected", seed, e.ID, need, blocks)
				}
			}
		})}}
		d.Fill(&cfg)
		for i := range cfg.Replicas {
			x := &cfg.Replicas[i]
			x.PrefixCache = cached
			if x.Role == sim.RoleDecode {
				x.Scheduler = decode(x.Scheduler, r)
			}
		}
		res, err := sim.Run(context.Background(), cfg, requests(rs...))
		if err != nil {
			t.Fatalf("seed %d, %+v: %v", seed, d, err)
		}
		if res.Completed+res.Rejected+res.Aborted != 40 {
			t.Fatalf("seed %d: %+v", seed, res)
		}
	}
	for _, kind := range []string{"finish", "abort", "preempt", "pulled", sim.RejectOutOfKV} {
		if ends[kind] < 100 {
			t.Errorf("%d times %s", ends[kind], kind)
		}
	}
}
