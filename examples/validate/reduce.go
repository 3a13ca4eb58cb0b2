package main

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"servesim/costmodel"
)

// fitReduce fits the collectives of every GPU of the catalogue, for 2, 4 and 8
// of them apart: on every second message size, tested on the sizes between.
func fitReduce(data, only string) ([]*fitted, error) {
	paths, err := filepath.Glob(filepath.Join(data, "kernels", "*_comm_*.csv.gz"))
	if err != nil {
		return nil, err
	}
	slices.Sort(paths)
	var list []*fitted
	for _, kind := range collectives {
		for _, path := range paths {
			if !strings.HasSuffix(path, kind.files) {
				continue
			}
			g, err := gpuOf(kernelGPU(path))
			if err != nil || only != "" && g.Name != only {
				continue
			}
			for _, gpus := range []int{2, 4, 8} {
				f, err := kind.fit(path, g, gpus)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", path, err)
				}
				list = append(list, f)
			}
		}
	}
	return list, nil
}

// collective is a kind of operation between GPUs.
type collective struct {
	name   string
	files  string // end of its files
	read   func(path string, gpus int) (sizes, seconds []float64, err error)
	form   func(gpus int, switchover float64) costmodel.Form
	from   func(g costmodel.GPU, path string, gpus int) costmodel.Provenance
	turns  float64 // of the tensor round a ring
	target float64
}

var collectives = []collective{
	{"all-reduce", "_custom_allreduce_perf.csv.gz", reduceTimes, costmodel.RingForm, reduceProvenance, 2, 0.15},
	{"gather", "_nccl_perf.csv.gz", gatherTimes, costmodel.GatherForm, ncclProvenance, 1, 0},
}

func (k collective) fit(path string, g costmodel.GPU, gpus int) (*fitted, error) {
	sizes, seconds, err := k.read(path, gpus)
	if err != nil {
		return nil, err
	}
	curve := newCurves()
	var in, out []costmodel.Sample
	for i := range sizes {
		curve.add(k.name, sizes[i], seconds[i])
		s := costmodel.Sample{Name: fmt.Sprintf("%s, %g B", filepath.Base(path), sizes[i]), Group: fmt.Sprint(sizes[i]),
			Inputs: []float64{sizes[i]}, Seconds: seconds[i]}
		if i%2 == 0 {
			in = append(in, s)
		} else {
			out = append(out, s)
		}
	}
	f := &fitted{GPU: g.Name, Operator: fmt.Sprintf("%s on %d", k.name, gpus), Samples: len(sizes), Groups: len(sizes), From: k.from(g, path, gpus), GPUs: gpus}
	best, switchover, err := k.best(in, gpus, f.From)
	if err != nil {
		return nil, err
	}
	errors := best.Test(out)
	f.Switchover, f.calibration, f.FitOn, f.Cross = switchover, best, best.Samples, best.CrossValidated
	f.Fitted, f.Held = best.Fitted, costmodel.AccuracyOf(errors)
	f.points = scatter(out, errors)
	f.Table = costmodel.AccuracyOf(curve.interpolate(f.From))
	var bounds []float64
	for _, s := range out {
		n := float64(gpus)
		bounds = append(bounds, k.turns*(n-1)/n*s.Inputs[0]/g.Link/s.Seconds-1)
	}
	f.Roofline = costmodel.AccuracyOf(bounds)
	f.setTarget(k.target)
	return f, f.describe(best, out, false)
}

// best tries every size of the samples as the switchover.
func (k collective) best(samples []costmodel.Sample, gpus int, from costmodel.Provenance) (best *costmodel.Calibration, switchover float64, err error) {
	least := math.Inf(1)
	for i := 2; i < len(samples)-2; i++ {
		c, err := costmodel.Fit(k.form(gpus, samples[i].Inputs[0]), samples, from)
		if err != nil {
			return nil, 0, err
		}
		if c.Fitted.MAPE < least {
			best, switchover, least = c, samples[i].Inputs[0], c.Fitted.MAPE
		}
	}
	return best, switchover, nil
}
