package main

import (
	"math"
	"path/filepath"
	"testing"

	"servesim/costmodel"
)

// The catalogue's fits have the errors that it states, on the half that no fit
// sees, and meet the targets of the report, which they were made of.
func TestCatalogueStatesItsErrors(t *testing.T) {
	data := shared(t)
	for _, name := range []string{"A100-80", "B200", "H100", "L40S", "RTX-PRO-6000"} {
		e, err := costmodel.FittedEfficiency(name)
		if err != nil {
			t.Fatal(err)
		}
		g, err := costmodel.LookupGPU(name)
		if err != nil {
			t.Fatal(err)
		}
		stated := calibrations(e.Measured)
		for _, op := range operators {
			c := stated[op.name]
			path := fileOf(t, data, op, g)
			if c == nil {
				if path != "" && len(heldSamples(t, op, path)) > 0 {
					t.Errorf("the catalogue has no %s of %s", op.name, name)
				}
				continue
			}
			out := heldSamples(t, op, path)
			got := costmodel.AccuracyOf(c.Test(out))
			t.Logf("%s, %s: %v", name, op.name, got)
			if got.N != c.Held.N || math.Abs(got.MAPE-c.Held.MAPE) > 0.002 || math.Abs(got.Median-c.Held.Median) > 0.002 ||
				math.Abs(got.Bias-c.Held.Bias) > 0.002 || math.Abs(got.P90-c.Held.P90) > 0.004 {
				t.Errorf("%s, %s: %v, stated %v", name, op.name, got, c.Held)
			}
			if target := op.targetOf(name); target > 0 && got.MAPE > max(target, missed[name+" "+op.name]) {
				t.Errorf("%s, %s: %v, target %v", name, op.name, got, target)
			}
			if c.From.Source != filepath.Base(path) {
				t.Errorf("%s, %s: from %s, stated %s", name, op.name, filepath.Base(path), c.From.Source)
			}
		}
	}
}

// calibrations names the fits as the report does.
func calibrations(m *costmodel.MeasuredKernels) map[string]*costmodel.Calibration {
	list := map[string]*costmodel.Calibration{
		"prefill attention": m.Attention.Prefill, "decode attention": m.Attention.Decode,
		"prefill attention window": m.Attention.WindowPrefill, "decode attention window": m.Attention.WindowDecode,
		"prefill attention fp8": m.NarrowAttention.Prefill, "decode attention fp8": m.NarrowAttention.Decode,
	}
	for _, name := range formats {
		list["matrix "+name], list["experts "+name] = m.Products[precision(name)], m.Experts[precision(name)]
	}
	return list
}

// fileOf returns the file of an operator on a GPU, "" if there is none.
func fileOf(t *testing.T, data string, op operator, g costmodel.GPU) string {
	t.Helper()
	files, err := kernelFiles(data, g.Name, op)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		return ""
	}
	return files[0].path
}

func heldSamples(t *testing.T, op operator, path string) (out []costmodel.Sample) {
	t.Helper()
	err := readCSV(path, op.need, func(r *row) {
		if s, _, _, ok := op.read(r); ok && r.err == nil && held(s.Group) {
			out = append(out, s)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
