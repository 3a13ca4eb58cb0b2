package costmodel

import "fmt"

// Format is how numbers are stored, scales included: 32 one-byte values with
// a two-byte scale are Format{ValueBytes: 1, ScaleBytes: 2, Group: 32}, 1.0625
// bytes per value. The zero value is BF16.
type Format struct {
	ValueBytes float64 // per value; 0 means 2, BF16, and is allowed without a scale only
	ScaleBytes float64 // per group
	Group      int     // values that share a scale; 0 means no scales
}

// bf16 is the size of an activation, an embedding and a BF16 weight.
const bf16 = 2

// GroupBytes returns the bytes of one group with its scale, or of one value if
// there are no groups.
func (f Format) GroupBytes() float64 {
	if f.Group == 0 {
		return f.BytesPerValue()
	}
	return float64(f.ValueBytes*float64(f.Group)) + f.ScaleBytes
}

// BytesPerValue returns the bytes of one value with its share of the scale.
func (f Format) BytesPerValue() float64 {
	switch {
	case f == Format{}:
		return bf16
	case f.Group == 0:
		return f.ValueBytes
	}
	return f.GroupBytes() / float64(f.Group)
}

func (f Format) validate(name string) error {
	switch {
	case f == Format{}:
		return nil
	case !finite(f.ValueBytes) || f.ValueBytes == 0:
		return badField(name+".ValueBytes", f.ValueBytes)
	case f.Group < 0:
		return badField(name+".Group", f.Group)
	case !finite(f.ScaleBytes):
		return badField(name+".ScaleBytes", f.ScaleBytes)
	case f.Group == 0 && f.ScaleBytes > 0:
		return fmt.Errorf("costmodel: %s.ScaleBytes is %v without a Group", name, f.ScaleBytes)
	}
	return nil
}
