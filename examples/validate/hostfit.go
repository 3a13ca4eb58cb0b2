package main

import (
	"strings"

	"servesim/costmodel"
)

// fitHost finds the host's part of a step from runs: the time from a request's
// first token to its last is the device's over its steps, plus step for each,
// plus sequence for each sequence in them. Which steps a request lives in
// depends on the host, so that it takes a few rounds.
//
// An engine that plans a step while the one before is on the device hides what
// planning costs whatever the step holds: for those, step is left at zero. In
// runs of busy engines the two could hardly be told apart.
func fitHost(runs []*replay) (host, *costmodel.Calibration, error) {
	form := costmodel.HostForm()
	hidden := true
	for _, r := range runs {
		hidden = hidden && r.rec.settings.async
	}
	if hidden {
		var err error
		if form, err = form.Without("step"); err != nil {
			return host{}, nil, err
		}
	}
	var h host
	var c *costmodel.Calibration
	for range 3 {
		samples, err := lives(runs, h)
		if err != nil {
			return h, nil, err
		}
		c, err = costmodel.Fit(form, samples, costmodel.Provenance{
			Platform: "the GPUs of the runs", Formats: "BF16", Kernels: "vLLM " + runs[0].rec.meta.VLLM, Layout: "as in the runs",
			Boundary: "a request's life from its first token to its last", Source: names(runs),
		})
		if err != nil {
			return h, nil, err
		}
		for _, k := range c.Coefficients {
			switch k.Name {
			case "step":
				h.Step = k.Value
			case "sequence":
				h.Sequence = k.Value
			}
		}
	}
	return h, c, nil
}

// lives simulates the runs and returns the lives of their requests.
func lives(runs []*replay, h host) ([]costmodel.Sample, error) {
	var samples []costmodel.Sample
	for _, r := range runs {
		try := *r
		try.host = h
		past, err := try.run()
		if err != nil {
			return nil, err
		}
		samples = append(samples, past.lives(r.rec)...)
	}
	return samples, nil
}

// lives are samples of HostForm: the recorded time of each request against
// the steps of its simulated life.
func (h *history) lives(rec *recording) []costmodel.Sample {
	device, sequences := make([][]float64, len(h.steps)), make([][]float64, len(h.steps)) // sums of the steps before
	for k, steps := range h.steps {
		d, q := make([]float64, len(steps)+1), make([]float64, len(steps)+1)
		for i, s := range steps {
			d[i+1], q[i+1] = d[i]+s.device, q[i]+float64(s.sequences)
		}
		device[k], sequences[k] = d, q
	}
	var list []costmodel.Sample
	for i, m := range rec.requests {
		l := h.requests[i]
		if m.Output < 2 || l.to < l.from {
			continue
		}
		d, q := device[l.group], sequences[l.group]
		list = append(list, costmodel.Sample{
			Name: rec.name + " " + m.ID, Group: rec.name, Seconds: m.Last - m.First,
			Inputs: []float64{d[l.to+1] - d[l.from], float64(l.to - l.from + 1), q[l.to+1] - q[l.from]},
		})
	}
	return list
}

func names(runs []*replay) string {
	list := make([]string, len(runs))
	for i, r := range runs {
		list[i] = r.rec.name
	}
	return strings.Join(list, ", ")
}
