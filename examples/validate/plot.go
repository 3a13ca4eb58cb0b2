package main

import (
	"image/color"
	"math"
	"os"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

var (
	blue = color.RGBA{R: 31, G: 119, B: 180, A: 255}
	red  = color.RGBA{R: 214, G: 39, B: 40, A: 255}
	grey = color.RGBA{R: 120, G: 120, B: 120, A: 255}
)

// plotAll writes a scatter of predicted against measured for everything fitted
// and three series for every run.
func plotAll(dir string, r report) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	for _, f := range r.Kernels {
		if err := plotScatter(dir, "kernel "+f.GPU+" "+f.Operator, f.points); err != nil {
			return err
		}
	}
	for _, l := range r.Layers {
		if err := plotScatter(dir, "layer "+l.GPU, l.points); err != nil {
			return err
		}
	}
	for _, l := range r.Loops {
		if err := plotScatter(dir, "closed loop "+l.Model+" "+l.GPU+" "+l.Engine+" "+l.Formats, l.points); err != nil {
			return err
		}
	}
	for _, run := range r.Runs {
		if err := plotRun(dir, run); err != nil {
			return err
		}
	}
	return nil
}

// plotScatter draws points, in ms on logarithmic axes, and the identity.
func plotScatter(dir, name string, points []point) error {
	if len(points) == 0 {
		return nil
	}
	p := plot.New()
	p.Title.Text = name + ", samples that the fit did not see"
	p.X.Label.Text, p.Y.Label.Text = "measured, ms", "predicted, ms"
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.LogTicks{Prec: -1}, plot.LogTicks{Prec: -1}
	xy := make(plotter.XYs, len(points))
	low, high := math.Inf(1), 0.0
	for i, q := range points {
		xy[i] = plotter.XY{X: 1e3 * q.measured, Y: 1e3 * q.predicted}
		low, high = min(low, xy[i].X, xy[i].Y), max(high, xy[i].X, xy[i].Y)
	}
	dots, err := plotter.NewScatter(xy)
	if err != nil {
		return err
	}
	dots.Radius, dots.Color = vg.Points(1), blue
	identity, err := plotter.NewLine(plotter.XYs{{X: low, Y: low}, {X: high, Y: high}})
	if err != nil {
		return err
	}
	identity.Color = grey
	p.Add(plotter.NewGrid(), dots, identity)
	return p.Save(14*vg.Centimeter, 14*vg.Centimeter, file(dir, name))
}

// plotRun draws what ran, waited and was held, once a second.
func plotRun(dir string, r *runReport) error {
	for _, s := range []struct {
		name, label string
		real        func(second) float64
		simulated   func(sampled) float64
	}{
		{"running", "sequences running", func(s second) float64 { return s.Running }, func(s sampled) float64 { return s.Running }},
		{"waiting", "requests waiting", func(s second) float64 { return s.Waiting }, func(s sampled) float64 { return s.Waiting }},
		{"KV", "KV blocks in use, %", func(s second) float64 { return s.KVPercent }, func(s sampled) float64 { return s.KV }},
		{"output", "output tokens per second", func(s second) float64 { return s.OutputRate }, func(s sampled) float64 { return s.OutputRate }},
	} {
		p := plot.New()
		p.Title.Text = r.Run
		p.X.Label.Text, p.Y.Label.Text = "s", s.label
		p.Legend.Top = true
		var real, simulated plotter.XYs
		for _, x := range r.rec.series {
			real = append(real, plotter.XY{X: x.T, Y: s.real(x)})
		}
		for _, x := range r.Sampled {
			simulated = append(simulated, plotter.XY{X: x.T, Y: s.simulated(x)})
		}
		for _, l := range []struct {
			name  string
			xy    plotter.XYs
			color color.Color
		}{{"recorded", real, grey}, {"simulated", simulated, red}} {
			line, err := plotter.NewLine(l.xy)
			if err != nil {
				return err
			}
			line.Color, line.Width = l.color, vg.Points(1.2)
			p.Add(line)
			p.Legend.Add(l.name, line)
		}
		p.Add(plotter.NewGrid())
		if err := p.Save(20*vg.Centimeter, 10*vg.Centimeter, file(dir, "run "+r.Run+" "+s.name)); err != nil {
			return err
		}
	}
	return nil
}

// file names a picture.
func file(dir, name string) string {
	letters := []rune(name)
	for i, c := range letters {
		if c == ' ' || c == '/' {
			letters[i] = '-'
		}
	}
	return filepath.Join(dir, string(letters)+".png")
}
