package main

import (
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"slices"

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
// and four series for every run.
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
	p.Legend.Left, p.Legend.Top = true, true
	p.Legend.Add("predicted = measured", identity)
	return p.Save(14*vg.Centimeter, 14*vg.Centimeter, file(dir, name))
}

// plotRun draws what ran, waited and was held, once a second.
func plotRun(dir string, r *runReport) error {
	for _, s := range []struct {
		name, label string
		of          func(second) float64
	}{
		{"running", "sequences running", func(s second) float64 { return s.Running }},
		{"waiting", "requests waiting", func(s second) float64 { return s.Waiting }},
		{"KV", "KV blocks in use, %", func(s second) float64 { return s.KV }},
		{"output", "output tokens per second", func(s second) float64 { return s.OutputRate }},
	} {
		p := plot.New()
		p.Title.Text = fmt.Sprintf("%s: %s on %s", r.Run, r.Model, r.GPU)
		p.X.Label.Text, p.Y.Label.Text = "seconds from the first arrival", s.label
		p.Legend.Top = true
		for _, l := range []struct {
			name   string
			series []second
			color  color.Color
		}{{"recorded", r.Recorded, grey}, {"simulated", r.Series, red}} {
			if len(l.series) == 0 || s.name == "KV" && !slices.ContainsFunc(l.series, func(x second) bool { return x.KV > 0 }) {
				continue // not recorded
			}
			xy := make(plotter.XYs, len(l.series))
			for i, x := range l.series {
				xy[i] = plotter.XY{X: x.T, Y: s.of(x)}
			}
			line, err := plotter.NewLine(xy)
			if err != nil {
				return err
			}
			line.Color, line.Width = l.color, vg.Points(1.2)
			p.Add(line)
			p.Legend.Add(l.name, line)
		}
		p.Add(plotter.NewGrid())
		p.Y.Min, p.Y.Max = 0, 1.2*max(p.Y.Max, 1) // room for the legend
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
