package costmodel_test

import (
	"testing"

	"servesim/costmodel"
)

func TestFormat(t *testing.T) {
	for _, c := range []struct {
		name            string
		format          costmodel.Format
		group, perValue float64
	}{
		{"bf16", costmodel.Format{}, 2, 2},
		{"fp8 without scales", costmodel.Format{ValueBytes: 1}, 1, 1},
		{"32 one-byte values and a two-byte scale", costmodel.Format{ValueBytes: 1, ScaleBytes: 2, Group: 32}, 34, 1.0625},
		{"fp8 in blocks of 128×128", costmodel.Format{ValueBytes: 1, ScaleBytes: 4, Group: 128 * 128}, 16388, 1.000244140625},
		{"nvfp4", costmodel.Format{ValueBytes: 0.5, ScaleBytes: 1, Group: 16}, 9, 0.5625},
	} {
		if got := c.format.GroupBytes(); got != c.group {
			t.Errorf("%s: group of %v bytes, want %v", c.name, got, c.group)
		}
		if got := c.format.BytesPerValue(); got != c.perValue {
			t.Errorf("%s: %v bytes per value, want %v", c.name, got, c.perValue)
		}
	}
}
