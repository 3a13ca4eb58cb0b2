package main

import (
	"cmp"
	"math"
	"path/filepath"
	"slices"

	"servesim/costmodel"
)

// layerReport is how well the layers of a GPU are predicted from others: of
// every pair of models, fitted on the rest.
type layerReport struct {
	GPU     string             `json:"gpu"`
	Models  int                `json:"models"`
	Held    costmodel.Accuracy `json:"left_out_pairs"` // all pairs together
	Worst   float64            `json:"worst_pair_mape"`
	Pair    string             `json:"worst_pair"`
	Decode  costmodel.Accuracy `json:"up_to_64_tokens"`
	Knee    costmodel.Accuracy `json:"65_to_512_tokens"`
	Prefill costmodel.Accuracy `json:"above_512_tokens"`
	Target  float64            `json:"target"`
	Met     bool               `json:"met"`
	Values  []coefficient      `json:"coefficients"` // of all models

	points []point
}

// reportLayers reads layers without attention, timed for several models, and
// leaves two models out at a time.
func reportLayers(data, only string) ([]*layerReport, error) {
	path := filepath.Join(data, "layers", "vidur_layer_times.csv.gz")
	byGPU := map[string][]costmodel.Sample{}
	var gpus []costmodel.GPU
	err := readCSV(path, []string{"device", "model", "tp", "num_tokens", "layer_ms_no_attention", "weights_per_layer_per_device"}, func(r *row) {
		g, err := gpuOf(r.text("device"))
		if err != nil {
			return // see strangers
		}
		if byGPU[g.Name] == nil {
			gpus = append(gpus, g)
		}
		n, weights := r.number("num_tokens"), r.number("weights_per_layer_per_device")
		byGPU[g.Name] = append(byGPU[g.Name], costmodel.Sample{Name: r.at(), Group: r.text("model"),
			Inputs: []float64{2 * weights * n, 2 * weights, n * width(weights*r.number("tp"))}, Seconds: r.number("layer_ms_no_attention") * 1e-3})
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(gpus, func(a, b costmodel.GPU) int { return cmp.Compare(a.Name, b.Name) })
	var list []*layerReport
	for _, g := range gpus {
		if only != "" && g.Name != only {
			continue
		}
		r, err := reportLayersOn(g, byGPU[g.Name], costmodel.Provenance{Platform: g.Name, Formats: "BF16", Kernels: "vLLM, as profiled by Vidur",
			Layout: "TP 1 to 8", Boundary: "one layer without attention", Source: filepath.Base(path)})
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
}

func reportLayersOn(g costmodel.GPU, samples []costmodel.Sample, from costmodel.Provenance) (*layerReport, error) {
	var models []string
	for _, s := range samples {
		models = append(models, s.Group)
	}
	slices.Sort(models)
	models = slices.Compact(models)
	r := &layerReport{GPU: g.Name, Models: len(models), Target: 0.05}
	var all, decode, knee, prefill []float64
	for i := range models {
		for _, second := range models[i+1:] {
			var in, out []costmodel.Sample
			for _, s := range samples {
				if s.Group == models[i] || s.Group == second {
					out = append(out, s)
				} else {
					in = append(in, s)
				}
			}
			c, err := costmodel.Fit(costmodel.LayerForm(g), in, from)
			if err != nil {
				return nil, err
			}
			errors := c.Test(out)
			if a := costmodel.AccuracyOf(errors); a.MAPE > r.Worst {
				r.Worst, r.Pair = a.MAPE, models[i]+", "+second
			}
			all = append(all, errors...)
			r.points = append(r.points, scatter(out, errors)...)
			for j, e := range errors {
				switch n := out[j].Inputs[0] / out[j].Inputs[1]; {
				case n <= 64:
					decode = append(decode, e)
				case n <= 512:
					knee = append(knee, e)
				default:
					prefill = append(prefill, e)
				}
			}
		}
	}
	r.Held, r.Decode, r.Knee, r.Prefill = costmodel.AccuracyOf(all), costmodel.AccuracyOf(decode), costmodel.AccuracyOf(knee), costmodel.AccuracyOf(prefill)
	r.Met = r.Held.MAPE <= r.Target
	c, err := costmodel.Fit(costmodel.LayerForm(g), samples, from)
	if err != nil {
		return nil, err
	}
	for _, k := range c.Coefficients {
		r.Values = append(r.Values, coefficient{Name: k.Name, Unit: k.Unit, Value: k.Value, Error: number(k.Error), AtBound: k.AtBound})
	}
	return r, nil
}

// width estimates the hidden size of a layer with that many weights: about 12
// times its square.
func width(weights float64) float64 { return math.Sqrt(weights / 12) }
