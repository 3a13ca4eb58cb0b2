package main

import "testing"

// What a rank gets of a benchmark's routing, where it can be counted by hand.
func TestRouting(t *testing.T) {
	for _, c := range []struct {
		name string
		deal routing
		want share
	}{
		{"turns on one GPU", routing{positions: 4, picks: 8, experts: 256, ranks: 1}, share{32, 32, 32}},
		{"turns that come round", routing{positions: 64, picks: 8, experts: 256, ranks: 1}, share{512, 256, 512}},
		{"turns on two ranks", routing{positions: 1, picks: 8, experts: 256, ranks: 2}, share{4, 4, 8}},
		{"one position, by a power law", routing{positions: 1, picks: 8, experts: 256, ranks: 1, alpha: 1.2}, share{8, 8, 8}},
		{"few picks on many ranks", routing{positions: 1, picks: 8, experts: 256, ranks: 4, alpha: 1.01}, share{2, 2, 8}},
		{"few picks in order", routing{positions: 1, picks: 8, experts: 256, ranks: 32, alpha: 1.2, inOrder: true}, share{8, 8, 8}},
		{"every rank has one expert", routing{positions: 1, picks: 1, experts: 16, ranks: 16, alpha: 1.01}, share{1, 1, 1}},
		{"every position picks every expert", routing{positions: 100, picks: 8, experts: 8, ranks: 4, alpha: 1.2}, share{200, 2, 800}},
	} {
		if got := c.deal.share(); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
	// A power law leaves experts out that turns do not, and loads one rank more.
	skewed := routing{positions: 64, picks: 8, experts: 128, ranks: 8, alpha: 1.2}.share()
	even := routing{positions: 64, picks: 8, experts: 128, ranks: 8}.share()
	if skewed.rows < 1.3*even.rows || skewed.distinct >= even.distinct {
		t.Errorf("by a power law %v, in turns %v", skewed, even)
	}
	// No expert has more rows than there are positions.
	if got := (routing{positions: 4096, picks: 2, experts: 8, ranks: 8, alpha: 1.2}).share(); got.rows > 4096 {
		t.Errorf("an expert has %v rows of 4096 positions", got.rows)
	}
}

// Tiles as the engines' rules give them.
func TestTileOf(t *testing.T) {
	for _, c := range []struct {
		format    string
		positions int
		old       bool
		want      float64
	}{
		{"bfloat16", 32, false, 16}, {"bfloat16", 33, false, 32}, {"fp8", 512, false, 64}, {"fp8", 513, false, 128},
		{"bfloat16", 128, true, 16}, {"bfloat16", 129, true, 64},
		{"fp8_block", 64, false, 16}, {"fp8_block", 65, false, 64},
		{"nvfp4", 1, false, 8}, {"nvfp4", 300, false, 32}, {"nvfp4", 9999, false, 64},
		{"int4_wo", 3, false, 4}, {"int4_wo", 96, false, 16}, {"int4_wo", 97, false, 64},
		{"w4a16_mxfp4", 1, false, 8}, {"w4a16_mxfp4", 200, false, 16}, {"w4a16_mxfp4", 9999, false, 64},
	} {
		deal := routing{positions: c.positions, picks: 8, experts: 128, ranks: 1, inOrder: c.old}
		if got := tileOf(precision(c.format), deal); got != c.want {
			t.Errorf("%s, %d positions: %v rows, want %v", c.format, c.positions, got, c.want)
		}
	}
}
