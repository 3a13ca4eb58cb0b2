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
		{"a rank alone", routing{positions: 3, picks: 8, experts: 256, ranks: 64, alone: true}, share{4, 4, 4}},
		{"one position, by a power law", routing{positions: 1, picks: 8, experts: 256, ranks: 1, alpha: 1.2}, share{8, 8, 8}},
		{"every rank has one expert", routing{positions: 1, picks: 1, experts: 16, ranks: 16, alpha: 1.01}, share{1, 1, 1}},
	} {
		if got := c.deal.share(); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
	if got := (routing{positions: 1, picks: 8, experts: 256, ranks: 32, alpha: 1.2, alone: true}).share(); got.rows != 8 {
		t.Errorf("a rank alone with some of eight picks gets %v rows, want a whole position of 8", got.rows)
	}
	// A power law leaves experts out that turns do not, and loads one rank more.
	skewed := routing{positions: 64, picks: 8, experts: 128, ranks: 8, alpha: 1.2}.share()
	even := routing{positions: 64, picks: 8, experts: 128, ranks: 8}.share()
	if skewed.rows < 1.3*even.rows || skewed.distinct >= even.distinct {
		t.Errorf("by a power law %v, in turns %v", skewed, even)
	}
}
