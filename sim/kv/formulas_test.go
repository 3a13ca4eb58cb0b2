package kv_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"servesim/sim/kv"
)

// Values are worked by hand; the conformance cases add those of real engines.

// 131,072 bytes a token for 32 layers, 8 heads of 128 two-byte elements.
var llama = kv.Layout{BlockTokens: 16, Layers: 32, KVHeads: 8, HeadDim: 128, DTypeBytes: 2}

func TestLayout(t *testing.T) {
	if llama.TokenBytes() != 131_072 || llama.PageBytes() != 65_536 || llama.BlockBytes() != 2_097_152 {
		t.Errorf("token %d, page %d, block %d", llama.TokenBytes(), llama.PageBytes(), llama.BlockBytes())
	}
	latent := kv.Layout{BlockTokens: 64, Layers: 61, KVHeads: 1, HeadDim: 576, DTypeBytes: 2, Latent: true}
	if latent.TokenBytes() != 70_272 {
		t.Errorf("latent token %d bytes, want 70272", latent.TokenBytes())
	}
	for bytes, want := range map[int64]int{10 * 2_097_152: 10, 10*2_097_152 - 1: 9, 0: 0, -5: 0} {
		if got := llama.Blocks(bytes); got != want {
			t.Errorf("%d bytes hold %d blocks, want %d", bytes, got, want)
		}
	}
	if got := llama.LongestContext(10*2_097_152, 500); got != 160 {
		t.Errorf("longest context %d, want 160", got)
	}
	m := kv.Memory{Total: 1000, Utilization: .9, Weights: 500, Activations: 70, Runtime: 30}
	if got := m.KVBytes(); got != 300 {
		t.Errorf("%d bytes left of 900 − 600", got)
	}
	if got := (kv.Memory{Total: 1000, Utilization: .5, Weights: 600}).KVBytes(); got != -100 {
		t.Errorf("%d bytes left of 500 − 600", got)
	}
	if got := kv.NumBlocks(0, 30, 20, 25); got != 20 {
		t.Errorf("ranks agree on %d blocks, want 20", got)
	}
}

func TestGroups(t *testing.T) {
	// 100 tokens: 7 blocks of 16. Window 33: 32 + 16 tokens, 3 blocks, and one.
	g := kv.Groups{{}, {Window: 33}}
	if got := g.MaxBlocks(100, 16, 16); got != 11 {
		t.Errorf("MaxBlocks = %d, want 11", got)
	}
	if got := g.Concurrency(22, 100, 16, 16); got != 2 {
		t.Errorf("Concurrency = %v, want 2", got)
	}
}

func TestWindow(t *testing.T) {
	// Window 9 of 4-token blocks: the 8 tokens before the next, two blocks.
	for _, c := range []struct {
		cached []bool
		want   int
	}{{nil, 0}, {[]bool{true}, 1}, {[]bool{false, true}, 0}, {[]bool{false, true, true, false, true}, 3}} {
		if got := kv.WindowHit(c.cached, 9, 4); got != c.want {
			t.Errorf("WindowHit(%v) = %d, want %d", c.cached, got, c.want)
		}
	}
	// After 12 tokens the next one, the 13th, sees tokens 5 to 13: the first block is out.
	for computed, want := range map[int]int{0: 0, 11: 0, 12: 1, 15: 1, 16: 2} {
		if got := kv.WindowReleased(computed, 9, 4); got != want {
			t.Errorf("WindowReleased(%d) = %d, want %d", computed, got, want)
		}
	}
}

func TestTransfer(t *testing.T) {
	// 40 tokens are 3 blocks; 32 of them are there: 8 tokens, one block whole.
	want := kv.Transfer{Tokens: 8, Blocks: 1, TokenBytes: 8 * 131_072, BlocksBytes: 16 * 131_072}
	if d := cmp.Diff(want, llama.Transfer(40, 32)); d != "" {
		t.Errorf("transfer (-want +got):\n%s", d)
	}
	if d := cmp.Diff(kv.Transfer{}, llama.Transfer(32, 32)); d != "" {
		t.Errorf("full local hit (-want +got):\n%s", d)
	}
	// A fast link shows its last layer, a slow one all but the first prefill layer.
	if got := kv.LayerwiseEnd(100, 20, 10); got != 102 {
		t.Errorf("fast link ends at %v, want 102", got)
	}
	if got := kv.LayerwiseEnd(100, 2000, 10); got != 2010 {
		t.Errorf("slow link ends at %v, want 2010", got)
	}
}

func TestRoom(t *testing.T) {
	p := kv.NewPool(10, 0, 4)
	c := kv.NewCache(10, 0, 4)
	p.Take(6)
	c.Take(6)
	for _, x := range []struct {
		n, watermark int
		want         kv.Room
	}{{4, 0, kv.Now}, {3, 1, kv.Now}, {4, 1, kv.Later}, {9, 1, kv.Later}, {10, 1, kv.Never}} {
		if got, of := p.CanTake(x.n, x.watermark), c.CanTake(x.n, x.watermark); got != x.want || of != x.want {
			t.Errorf("CanTake(%d, %d) = %v and %v, want %v", x.n, x.watermark, got, of, x.want)
		}
	}
	if got := kv.WatermarkBlocks(.01, 250); got != 2 {
		t.Errorf("watermark %d, want 2", got)
	}
	// 5 tokens: the second block has room, exact growth takes nothing, V0 asks for it.
	if kv.GrowthBlocks(5, 3, 4) != 0 || kv.GrowthBlocks(5, 4, 4) != 1 || kv.TouchedBlocks(5, 3, 4) != 1 || kv.TouchedBlocks(5, 4, 4) != 2 {
		t.Error("growth of 5 tokens by 3 and 4: want 0 and 1 exact, 1 and 2 touched")
	}
	p.Take(4)
	c.Take(4)
	if p.CanAppend(5, 1) || c.CanAppend(5, 1) {
		t.Error("V0 growth into the last block with no block free")
	}
}

func TestSwap(t *testing.T) {
	device, host := kv.NewPool(6, 0, 4), kv.NewPool(3, 0, 4)
	device.Take(5)
	if host.Swap(&device, 4) || device.Owned() != 5 || host.Owned() != 0 {
		t.Fatal("4 blocks swapped into 3, or a refusal changed something")
	}
	if !host.Swap(&device, 3) || device.Owned() != 2 || host.Owned() != 3 {
		t.Fatalf("after a swap of 3: device owns %d, host %d", device.Owned(), host.Owned())
	}
	// 12 tokens with 1 more: 3 full blocks and one touched, 4 of 4 free.
	for _, c := range []struct {
		tokens, more, watermark int
		want                    kv.Room
	}{{12, 1, 0, kv.Now}, {12, 1, 1, kv.Later}, {20, 4, 6, kv.Later}, {20, 5, 0, kv.Never}} {
		if got := device.CanSwap(c.tokens, c.more, c.watermark); got != c.want {
			t.Errorf("CanSwap(%d, %d, %d) = %v, want %v", c.tokens, c.more, c.watermark, got, c.want)
		}
	}
}

func TestHitRate(t *testing.T) {
	var all kv.HitRate
	window := kv.HitRate{Window: 3}
	for range 20 { // more than the ring begins with
		all.Add(1, 10, 2)
		window.Add(1, 10, 8)
	}
	if all.Requests() != 20 || all.Rate() != .2 {
		t.Errorf("all: %d requests, rate %v", all.Requests(), all.Rate())
	}
	window.Add(2, 100, 0) // leaves one of the old ones
	if window.Requests() != 3 || window.Queried() != 110 || window.Hits() != 8 {
		t.Errorf("window: %d requests, %d tokens, %d found, want 3, 110, 8", window.Requests(), window.Queried(), window.Hits())
	}
	window.Add(9, 50, 5) // larger than the window: it alone remains
	if window.Requests() != 9 || window.Rate() != .1 {
		t.Errorf("window: %d requests, rate %v, want 9 and 0.1", window.Requests(), window.Rate())
	}
}
