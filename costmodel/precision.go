package costmodel

import (
	"fmt"
	"strings"
)

// Number is the format in which a product multiplies.
type Number uint8

// The numbers.
const (
	BF16 Number = iota
	FP8
	INT8
	FP4
	TF32
	FP32
)

var numberNames = [...]string{"BF16", "FP8", "INT8", "FP4", "TF32", "FP32"}

// String returns the name in upper case.
func (n Number) String() string {
	if int(n) < len(numberNames) {
		return numberNames[n]
	}
	return fmt.Sprintf("number(%d)", uint8(n))
}

// Precision is how a matrix is stored and multiplied. The zero value is BF16
// throughout. Weight-only formats expand the weights and multiply BF16.
type Precision struct {
	Weights     Format
	Activations Format // of the left side; results are BF16
	Compute     Number
}

// precisions are the names that kernel benchmarks use. Scales are those of the
// formats' definitions: FP8 in blocks of 128 × 128 with FP32 scales, NVFP4 in
// groups of 16 with FP8 scales, MXFP4 and MXFP8 in groups of 32 with one-byte
// exponents, INT4 in groups of 128 with BF16 scales.
var precisions = []struct {
	name      string
	precision Precision
}{
	{"bfloat16", Precision{}},
	{"int8_wo", Precision{Weights: Format{ValueBytes: 1}}},
	{"int4_wo", Precision{Weights: Format{ValueBytes: 0.5, ScaleBytes: 2, Group: 128}}},
	{"fp8", Precision{Weights: Format{ValueBytes: 1}, Activations: Format{ValueBytes: 1}, Compute: FP8}},
	{"fp8_block", Precision{Weights: Format{ValueBytes: 1, ScaleBytes: 4, Group: 128 * 128},
		Activations: Format{ValueBytes: 1, ScaleBytes: 4, Group: 128}, Compute: FP8}},
	{"int8", Precision{Weights: Format{ValueBytes: 1}, Activations: Format{ValueBytes: 1}, Compute: INT8}},
	{"nvfp4", Precision{Weights: Format{ValueBytes: 0.5, ScaleBytes: 1, Group: 16},
		Activations: Format{ValueBytes: 0.5, ScaleBytes: 1, Group: 16}, Compute: FP4}},
	{"w4a16_mxfp4", Precision{Weights: Format{ValueBytes: 0.5, ScaleBytes: 1, Group: 32}}},
	{"w4a8_mxfp4_mxfp8", Precision{Weights: Format{ValueBytes: 0.5, ScaleBytes: 1, Group: 32},
		Activations: Format{ValueBytes: 1, ScaleBytes: 1, Group: 32}, Compute: FP8}},
}

// LookupPrecision returns the precision of that name. The error lists the
// known names.
func LookupPrecision(name string) (Precision, error) {
	names := make([]string, len(precisions))
	for i, p := range precisions {
		if strings.EqualFold(p.name, name) {
			return p.precision, nil
		}
		names[i] = p.name
	}
	return Precision{}, fmt.Errorf("costmodel: unknown precision %q; known are %s", name, strings.Join(names, ", "))
}

func (p Precision) validate(name string) error {
	if err := p.Weights.validate(name + ".Weights"); err != nil {
		return err
	}
	if err := p.Activations.validate(name + ".Activations"); err != nil {
		return err
	}
	if int(p.Compute) >= len(numberNames) {
		return badField(name+".Compute", p.Compute)
	}
	return nil
}
