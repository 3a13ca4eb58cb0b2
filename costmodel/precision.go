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

// The formats with scales, as they are defined: FP8 in blocks of 128 × 128
// (weights) or 128 (activations) with FP32 scales, NVFP4 in groups of 16 with
// FP8 scales, MXFP4 and MXFP8 in groups of 32 with one-byte exponents.
var (
	fp8Blocks = Format{ValueBytes: 1, ScaleBytes: 4, Group: 128 * 128}
	fp8Rows   = Format{ValueBytes: 1, ScaleBytes: 4, Group: 128}
	nvfp4     = Format{ValueBytes: 0.5, ScaleBytes: 1, Group: 16}
	mxfp4     = Format{ValueBytes: 0.5, ScaleBytes: 1, Group: 32}
	mxfp8     = Format{ValueBytes: 1, ScaleBytes: 1, Group: 32}
)

// precisions are the names that kernel benchmarks use. INT4 has BF16 scales in
// groups of 128, as GPTQ and AWQ write them by default.
var precisions = []struct {
	name      string
	precision Precision
}{
	{"bfloat16", Precision{}},
	{"int8_wo", Precision{Weights: Format{ValueBytes: 1}}},
	{"int4_wo", Precision{Weights: Format{ValueBytes: 0.5, ScaleBytes: 2, Group: 128}}},
	{"fp8", Precision{Weights: Format{ValueBytes: 1}, Activations: Format{ValueBytes: 1}, Compute: FP8}},
	{"fp8_block", Precision{Weights: fp8Blocks, Activations: fp8Rows, Compute: FP8}},
	{"int8", Precision{Weights: Format{ValueBytes: 1}, Activations: Format{ValueBytes: 1}, Compute: INT8}},
	{"nvfp4", Precision{Weights: nvfp4, Activations: nvfp4, Compute: FP4}},
	{"w4a16_mxfp4", Precision{Weights: mxfp4}},
	{"w4a8_mxfp4_mxfp8", Precision{Weights: mxfp4, Activations: mxfp8, Compute: FP8}},
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

// String returns the catalogue's name of the precision, or its fields.
func (p Precision) String() string {
	for _, known := range precisions {
		if known.precision == p {
			return known.name
		}
	}
	return fmt.Sprintf("%v weights, %v activations, %v", p.Weights, p.Activations, p.Compute)
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
