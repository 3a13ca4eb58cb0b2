package main

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"servesim/costmodel"
)

// fitReduce fits the all-reduce of every GPU, for 2, 4 and 8 of them apart: on
// every second message size, tested on the sizes between.
func fitReduce(data, only string) ([]*fitted, error) {
	paths, err := filepath.Glob(filepath.Join(data, "kernels", "*_custom_allreduce_perf.csv.gz"))
	if err != nil {
		return nil, err
	}
	slices.Sort(paths)
	var list []*fitted
	for _, path := range paths {
		name, _, _ := strings.Cut(filepath.Base(path), "_comm_")
		g, err := gpuOf(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if only != "" && g.Name != only {
			continue
		}
		for _, gpus := range []int{2, 4, 8} {
			f, err := fitReduceOn(path, g, gpus)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			list = append(list, f)
		}
	}
	return list, nil
}

func fitReduceOn(path string, g costmodel.GPU, gpus int) (*fitted, error) {
	c, err := readReduce(path, gpus)
	if err != nil {
		return nil, err
	}
	sizes, seconds := c.sorted("all-reduce")
	var in, out []costmodel.Sample
	for i := range sizes {
		s := costmodel.Sample{Name: fmt.Sprintf("%s, %g B", filepath.Base(path), sizes[i]), Group: fmt.Sprint(sizes[i]),
			Inputs: []float64{sizes[i]}, Seconds: seconds[i]}
		if i%2 == 0 {
			in = append(in, s)
		} else {
			out = append(out, s)
		}
	}
	f := &fitted{GPU: g.Name, Operator: fmt.Sprintf("all-reduce on %d", gpus), Samples: len(sizes), Groups: len(sizes), From: reduceProvenance(g, path, gpus)}
	best, switchover, err := bestRing(in, gpus, f.From)
	if err != nil {
		return nil, err
	}
	errors := best.Test(out)
	f.GPUs, f.Switchover = gpus, switchover
	f.calibration, f.FitOn, f.Cross = best, best.Samples, best.CrossValidated
	f.Fitted, f.Held = best.Fitted, costmodel.AccuracyOf(errors)
	f.points = scatter(out, errors)
	f.Table = costmodel.AccuracyOf(c.interpolate(f.From))
	var bounds []float64
	for _, s := range out {
		n := float64(gpus)
		bounds = append(bounds, 2*(n-1)/n*s.Inputs[0]/g.Link/s.Seconds-1)
	}
	f.Roofline = costmodel.AccuracyOf(bounds)
	f.setTarget(map[string]float64{"": 0.15})
	return f, f.describe(best, out, false)
}

// bestRing tries every size of the samples as the switchover.
func bestRing(samples []costmodel.Sample, gpus int, from costmodel.Provenance) (best *costmodel.Calibration, switchover float64, err error) {
	least := math.Inf(1)
	for i := 2; i < len(samples)-2; i++ {
		c, err := costmodel.Fit(costmodel.RingForm(gpus, samples[i].Inputs[0]), samples, from)
		if err != nil {
			return nil, 0, err
		}
		if c.Fitted.MAPE < least {
			best, switchover, least = c, samples[i].Inputs[0], c.Fitted.MAPE
		}
	}
	return best, switchover, nil
}
