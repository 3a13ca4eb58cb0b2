package costmodel_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"servesim/costmodel"
	"servesim/sim"

	"github.com/google/go-cmp/cmp"
)

// Pairs of a query and a key, counted one by one.
func TestAttentionPairs(t *testing.T) {
	for _, window := range []int{0, 1, 2, 7, 8, 100} {
		a := costmodel.Attention{Heads: 1, KVHeads: 1, HeadDim: 1, Window: window}
		for s := 1; s <= 20; s++ {
			for p := 0; p <= 20; p++ {
				all, causal, first := 0, 0, p+1
				for i := 1; i <= s; i++ {
					from := 1 // the first key that position p+i sees
					if window > 0 {
						from = max(1, p+i-window+1)
					}
					first = min(first, from)
					all += p + i - from + 1
					causal += p + i - max(from, p+1) + 1
				}
				got := a.Prompt(sim.Chunk{Tokens: s, Context: p})
				want := costmodel.Work{FLOPs: 4 * float64(all), Causal: 4 * float64(causal),
					Bytes: float64(4*(p+s-first+1) + 4*s + 4*s), Sequences: 1}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("%d positions behind %d, window %d (-want +got):\n%s", s, p, window, diff)
				}
				// Three sequences that verify as many positions each do three
				// times the work, in one launch.
				got = a.Decode(3, float64(3*s), float64(3*p))
				if want.FLOPs *= 3; !near(got.FLOPs, want.FLOPs) || !near(got.Bytes, 3*want.Bytes) || got.Causal != 0 || got.Sequences != 3 {
					t.Fatalf("3·%d positions behind 3·%d, window %d: %+v, want 3 times %+v", s, p, window, got, want)
				}
			}
		}
	}
}

// FLOPs are additive over chunks, whatever the window.
func TestAttentionIsAdditive(t *testing.T) {
	for _, window := range []int{0, 5, 64, 300, 1000} {
		a := costmodel.Attention{Heads: 8, KVHeads: 2, HeadDim: 64, Window: window}
		l := costmodel.Latent{Heads: 8, KVRank: 512, RopeDim: 64, NopeDim: 128, ValueDim: 128}
		whole, latent := a.Prompt(sim.Chunk{Tokens: 500}), l.Prompt(sim.Chunk{Tokens: 500})
		for _, size := range []int{1, 7, 64, 499} {
			sum, sumLatent := 0.0, 0.0
			for at := 0; at < 500; at += size {
				c := sim.Chunk{Tokens: min(size, 500-at), Context: at}
				sum += a.Prompt(c).FLOPs
				sumLatent += l.Prompt(c).FLOPs
			}
			if sum != whole.FLOPs || sumLatent != latent.FLOPs {
				t.Errorf("chunks of %d, window %d: %v and %v FLOPs, whole %v and %v", size, window, sum, sumLatent, whole.FLOPs, latent.FLOPs)
			}
		}
	}
}

// A sequence of decodes counts as many FLOPs as the prompt of that length.
func TestDecodesAddUpToPrompt(t *testing.T) {
	a := costmodel.Attention{Heads: 8, KVHeads: 2, HeadDim: 64, Window: 100}
	sum := 0.0
	for p := range 300 {
		sum += a.Decode(1, 1, float64(p)).FLOPs
	}
	if want := a.Prompt(sim.Chunk{Tokens: 300}).FLOPs; sum != want {
		t.Errorf("%v FLOPs one by one, %v as a prompt", sum, want)
	}
}

// DeepSeek-V3's attention with all 128 heads: 1,152 bytes a token for all, 242
// FLOPs per byte in decoding, against 295 where an H100 turns compute-bound.
func TestLatentIntensity(t *testing.T) {
	l := costmodel.Latent{Heads: 128, KVRank: 512, RopeDim: 64, NopeDim: 128, ValueDim: 128}
	w := l.Decode(1, 1, 1e9)
	if got := fmt.Sprintf("%.0f %.0f", w.FLOPs/1e9, w.Bytes/1e9); got != "278528 1152" {
		t.Errorf("%s FLOPs and bytes per key, want 278528 (2·128·1088) and 1152", got)
	}
	if got := fmt.Sprintf("%.0f", w.FLOPs/w.Bytes); got != "242" {
		t.Errorf("intensity %s, want 242", got)
	}
	// n·320·(S² − p²) for a long chunk.
	if f, want := l.Prompt(sim.Chunk{Tokens: 4000, Context: 6000}).FLOPs, 128*320*(1e8-3.6e7); math.Abs(f/want-1) > 1e-3 {
		t.Errorf("%v FLOPs, want about %v", f, want)
	}
}

func TestProduct(t *testing.T) {
	p := costmodel.Product{Columns: 30, Inner: 20, Precision: costmodel.Precision{
		Weights: costmodel.Format{ValueBytes: 0.5, ScaleBytes: 1, Group: 16}, Activations: costmodel.Format{ValueBytes: 1}}}
	want := costmodel.Work{FLOPs: 2 * 10 * 30 * 20, Bytes: 600*0.5625 + 10*(20+2*30)}
	if got := p.Work(10); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := p.Work(0); got != (costmodel.Work{}) {
		t.Errorf("no rows: %+v", got)
	}
}

// 6 FLOPs of which 2 are causal take 2/0.5 + 4/1 = … at a rate of 1; 4 bytes
// take 4/0.5 at a bandwidth of 2.
func TestKernelSeconds(t *testing.T) {
	w := costmodel.Work{FLOPs: 6, Causal: 2, Bytes: 6, Sequences: 3}
	k := costmodel.Kernel{Launch: 10 * time.Second, Sequence: time.Second, Causal: 0.5, Memory: 0.5}
	for smooth, want := range map[float64]float64{
		0: 13 + 8, 1: 13 + 8 + 6, 2: 13 + 10, 3: 13 + math.Cbrt(512+216), 1.5: 13 + math.Pow(math.Pow(8, 1.5)+math.Pow(6, 1.5), 2/3.)} {
		k.Smooth = smooth
		if got := k.Seconds(w, 1, 2); !near(got, want) {
			t.Errorf("smooth %v: %v s, want %v", smooth, got, want)
		}
	}
	if got := (costmodel.Kernel{Smooth: 2.5}).Seconds(costmodel.Work{Bytes: 6}, 1, 2); got != 3 {
		t.Errorf("no operations: %v s, want 3", got)
	}
}

// The norm lies between the maximum and the sum, falls with p, and never
// falls with the work.
func TestSmoothMaximum(t *testing.T) {
	seconds := func(smooth, flops, bytes float64) float64 {
		return costmodel.Kernel{Smooth: smooth}.Seconds(costmodel.Work{FLOPs: flops, Bytes: bytes}, 1, 1)
	}
	for _, bytes := range []float64{0, 1e-300, 1e-9, 0.5, 1, 2, 1e9} {
		last := 1 + bytes
		for _, p := range []float64{1, 1.3, 2, 2.17, 4, 100, 0} {
			got := seconds(p, 1, bytes)
			if got > last*(1+1e-15) || got < max(1, bytes) {
				t.Errorf("p %v, times 1 and %v: %v, want one from %v to %v", p, bytes, got, max(1, bytes), last)
			}
			if more := seconds(p, 1, bytes*1.001); more < got {
				t.Errorf("p %v: %v for %v, then %v for more", p, got, bytes, more)
			}
			last = got
		}
	}
}
