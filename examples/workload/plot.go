package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image/color"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"servesim/sim"
	"servesim/workload"
)

// colours tell files apart, those that colour-blind people tell apart first.
var colours = []color.RGBA{
	{R: 31, G: 119, B: 180, A: 255}, {R: 214, G: 39, B: 40, A: 255}, {R: 44, G: 160, B: 44, A: 255},
	{R: 255, G: 127, B: 14, A: 255}, {R: 148, G: 103, B: 189, A: 255}, {R: 23, G: 190, B: 207, A: 255},
}

var grey = color.RGBA{R: 120, G: 120, B: 120, A: 255}

// drawn is what pictures show of a file.
type drawn struct {
	name    string
	n       int
	seconds []float64   // requests in each second from the first arrival on, the last one in part
	span    float64     // s, from the first arrival to the last
	lengths plotter.XYs // prompt and output of some requests, evenly chosen
	every   int         // one of so many requests is in lengths
	colour  color.RGBA
}

// maxDots bounds the dots of a picture, and what is held of lengths.
const maxDots = 20_000

// plotFiles draws the files together and says which pictures it wrote.
func plotFiles(ctx context.Context, o options, stdout io.Writer) error {
	var files []*drawn
	var kinds []*format
	for _, name := range o.files {
		f, err := o.formatOf(name)
		if err != nil {
			return err
		}
		kinds = append(kinds, f)
	}
	o.file = strings.Join(o.files, ", ")
	if err := o.meant(kinds...); err != nil {
		return err
	}
	for i, name := range o.files {
		o.file = name
		d, err := readDrawn(ctx, o, kinds[i])
		if err != nil {
			return err
		}
		d.colour = colours[len(files)%len(colours)]
		files = append(files, d)
	}
	nameApart(files)
	pictures := []struct {
		name string
		draw func([]*drawn) (io.WriterTo, error)
	}{
		{"arrivals.png", drawArrivals}, {"dispersion.png", drawDispersion}, {"lengths.png", drawLengths},
	}
	var texts [][]byte // all of them before the first is written
	for _, p := range pictures {
		w, err := p.draw(files)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		var b bytes.Buffer
		if _, err := w.WriteTo(&b); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		texts = append(texts, b.Bytes())
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	o.done()
	if err := os.MkdirAll(o.out, 0o777); err != nil {
		return err
	}
	for i, p := range pictures {
		path := filepath.Join(o.out, p.name)
		if err := os.WriteFile(path, texts[i], 0o666); err != nil {
			return err
		}
		fmt.Fprintln(stdout, path)
	}
	return nil
}

// nameApart calls files by their last name, and by their path where that is not
// enough.
func nameApart(files []*drawn) {
	times := map[string]int{}
	for _, d := range files {
		times[filepath.Base(d.name)]++
	}
	for _, d := range files {
		if base := filepath.Base(d.name); times[base] == 1 {
			d.name = base
		}
	}
}

// readDrawn reads a file once, twice if it has to be put in order.
func readDrawn(ctx context.Context, o options, f *format) (*drawn, error) {
	switch {
	case f.requests == nil:
		return nil, fmt.Errorf("%s: %s has no requests to draw", o.file, f.name)
	case f.name == "tracelab" && o.closedLoop():
		return nil, fmt.Errorf("%s: %w", o.file, errClosedLoop)
	}
	d, err := readRequests(ctx, o, f, false)
	if errors.Is(err, workload.ErrOrder) {
		d, err = readRequests(ctx, o, f, true)
	}
	return d, err
}

func readRequests(ctx context.Context, o options, f *format, sort bool) (*drawn, error) {
	d := &drawn{name: o.file, every: 1}
	var first sim.Time
	for q, err := range o.watch(ctx, "drawing "+o.file, f.requests(o, sort, new(workload.Counts))) {
		if err != nil {
			return nil, err
		}
		if d.n == 0 {
			first = q.Arrival
		}
		if d.n%d.every == 0 {
			d.lengths = append(d.lengths, plotter.XY{X: float64(q.Prompt), Y: float64(q.Output)})
			if len(d.lengths) == 2*maxDots { // every other one is enough
				for i := range maxDots {
					d.lengths[i] = d.lengths[2*i]
				}
				d.lengths, d.every = d.lengths[:maxDots], 2*d.every
			}
		}
		d.n++
		since := q.Arrival.Sub(first)
		second := int(since / time.Second)
		const longest = 100_000_000 // three years, 800 MB
		if second >= longest {
			return nil, fmt.Errorf("%s: request %d arrives %v after the first, too long to draw", o.file, q.ID, since)
		}
		for len(d.seconds) <= second {
			d.seconds = append(d.seconds, 0)
		}
		d.seconds[second]++
		d.span = since.Seconds()
	}
	if d.n == 0 {
		return nil, fmt.Errorf("%s: no requests to draw", o.file)
	}
	return d, nil
}

// counts are the requests in windows of so many seconds, the last, partial one
// left out.
func (d *drawn) counts(width int) []float64 {
	whole := int(d.span)
	var out []float64
	for from := 0; from+width <= whole; from += width {
		sum := 0.0
		for _, n := range d.seconds[from : from+width] {
			sum += n
		}
		out = append(out, sum)
	}
	return out
}

// dispersion is the index of dispersion for counts in windows of so many
// seconds: variance over mean, of the population. It needs ten windows.
func (d *drawn) dispersion(width int) (idc float64, ok bool) {
	counts := d.counts(width)
	if len(counts) < 10 {
		return 0, false
	}
	mean, variance := stat.PopMeanVariance(counts, nil)
	return variance / mean, mean > 0 && variance > 0
}

// label is a file and its number of requests.
func (d *drawn) label() string { return fmt.Sprintf("%s, n = %s", d.name, grouped(d.n)) }

// grouped writes a number with commas between groups of three digits.
func grouped(n int) string {
	s := strconv.Itoa(n)
	for at := len(s) - 3; at > 0; at -= 3 {
		s = s[:at] + "," + s[at:]
	}
	return s
}

// newPlot has the look that all pictures share.
func newPlot(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.Padding = vg.Points(6)
	p.X.Label.Padding, p.Y.Label.Padding = vg.Points(3), vg.Points(3)
	p.BackgroundColor = color.White
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = color.Gray{Y: 225}, color.Gray{Y: 225}
	p.Add(grid)
	return p
}

// drawArrivals draws the rate over time, one panel a file, on the same scales.
func drawArrivals(files []*drawn) (io.WriterTo, error) {
	span := 0.0
	for _, d := range files {
		span = max(span, d.span)
	}
	width := binWidth(span)
	unit, scale := timeUnit(span)
	top := 0.0
	var panels [][]*plot.Plot
	for i, d := range files {
		p := newPlot(d.label(), "", "requests/s")
		p.X.Tick.Marker, p.Y.Tick.Marker = plainTicks{}, plainTicks{}
		if i == len(files)-1 {
			p.X.Label.Text = "time since the first arrival, " + unit
		}
		var xy plotter.XYs
		for from := 0; from < len(d.seconds); from += width {
			sum, to := 0.0, min(from+width, len(d.seconds))
			for _, n := range d.seconds[from:to] {
				sum += n
			}
			if to < from+width && len(xy) > 0 {
				break // the last window is not whole
			}
			rate := sum / float64(width)
			top = max(top, rate)
			// A step as wide as the window.
			xy = append(xy, plotter.XY{X: float64(from) / scale, Y: rate}, plotter.XY{X: float64(from+width) / scale, Y: rate})
		}
		line, err := plotter.NewLine(xy)
		if err != nil {
			return nil, err
		}
		line.Color, line.Width = d.colour, vg.Points(0.8)
		mean := float64(d.n)
		if d.span > 0 {
			mean = float64(d.n) / d.span
		}
		average, err := plotter.NewLine(plotter.XYs{{X: 0, Y: mean}, {X: max(d.span, 1) / scale, Y: mean}})
		if err != nil {
			return nil, err
		}
		average.Color, average.Dashes = grey, []vg.Length{vg.Points(4), vg.Points(3)}
		p.Add(line, average)
		p.Legend.Top, p.Legend.TextStyle.Font.Size = true, vg.Points(9)
		p.Legend.Add(seconds(width), line)
		p.Legend.Add("mean "+digits(workload.Figure(mean))+"/s", average)
		panels = append(panels, []*plot.Plot{p})
	}
	for _, p := range panels {
		p[0].X.Min, p[0].X.Max = 0, max(span, 1)/scale
		p[0].Y.Min, p[0].Y.Max = 0, 1.3*max(top, 1e-9) // the legend has the top
	}
	return tiled(panels, 22*vg.Centimeter, 7*vg.Centimeter)
}

// binWidth is the shortest window, in seconds, that leaves 700 of them or
// fewer.
func binWidth(span float64) int {
	widths := []int{1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 4 * 3600, 24 * 3600}
	for _, w := range widths {
		if span/float64(w) <= 700 {
			return w
		}
	}
	return widths[len(widths)-1]
}

// seconds says how wide a window is.
func seconds(width int) string {
	switch {
	case width == 1:
		return "each second"
	case width >= 3600:
		return fmt.Sprintf("windows of %d h", width/3600)
	case width >= 120:
		return fmt.Sprintf("windows of %d min", width/60)
	}
	return fmt.Sprintf("windows of %d s", width)
}

// timeUnit is what an axis of that many seconds counts.
func timeUnit(span float64) (name string, seconds float64) {
	switch {
	case span > 4*86400:
		return "days", 86400
	case span > 4*3600:
		return "hours", 3600
	case span > 600:
		return "minutes", 60
	}
	return "s", 1
}

// drawDispersion draws the index of dispersion by window of all files.
func drawDispersion(files []*drawn) (io.WriterTo, error) {
	p := newPlot("Index of dispersion by window", "window, s", "variance / mean of requests in a window")
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = plainLogTicks{}, plainLogTicks{}
	p.Legend.Top, p.Legend.Left, p.Legend.TextStyle.Font.Size = true, true, vg.Points(9)
	p.Legend.Padding = vg.Points(2)
	poisson, err := plotter.NewLine(plotter.XYs{{X: 1, Y: 1}, {X: 600, Y: 1}})
	if err != nil {
		return nil, err
	}
	poisson.Color, poisson.Dashes = grey, []vg.Length{vg.Points(4), vg.Points(3)}
	p.Add(poisson)
	low, high := 1.0, 1.0
	for i, d := range files {
		var xy plotter.XYs
		for _, width := range []int{1, 2, 3, 5, 7, 10, 15, 20, 30, 45, 60, 90, 120, 180, 240, 300, 400, 500, 600} {
			if idc, ok := d.dispersion(width); ok {
				xy = append(xy, plotter.XY{X: float64(width), Y: idc})
				low, high = min(low, idc), max(high, idc)
			}
		}
		if len(xy) == 0 {
			p.Legend.Add(d.label() + ": too short, or even")
			continue
		}
		line, dots, err := plotter.NewLinePoints(xy)
		if err != nil {
			return nil, err
		}
		line.Color, line.Width = d.colour, vg.Points(1.2)
		dots.Color, dots.Radius = d.colour, vg.Points(2.2)
		dots.Shape = []draw.GlyphDrawer{draw.CircleGlyph{}, draw.BoxGlyph{}, draw.TriangleGlyph{}}[i%3]
		p.Add(line, dots)
		p.Legend.Add(d.label(), line, dots)
	}
	p.Legend.Add("a Poisson process: 1", poisson)
	p.X.Min, p.X.Max = 1, 600
	p.Y.Min, p.Y.Max = low/1.5, 1.2*high
	return p.WriterTo(18*vg.Centimeter, 13*vg.Centimeter, "png")
}

// plainTicks are multiples of 1, 2 or 5 times a power of ten, four to ten of
// them, with no more digits than they need.
type plainTicks struct{}

// Ticks implements plot.Ticker.
func (plainTicks) Ticks(low, high float64) (ticks []plot.Tick) {
	step := math.Pow10(int(math.Floor(math.Log10((high - low) / 4))))
	for _, factor := range []float64{5, 2} {
		if (high-low)/(step*factor) >= 4 {
			step *= factor
			break
		}
	}
	for i := math.Ceil(low / step); i*step <= high; i++ {
		ticks = append(ticks, plot.Tick{Value: i * step, Label: strconv.FormatFloat(i*step, 'g', 6, 64)})
	}
	return ticks
}

// plainLogTicks are powers of ten with 1, 2 and 5 named between them, as whole
// numbers where they are.
type plainLogTicks struct{}

// Ticks implements plot.Ticker.
func (plainLogTicks) Ticks(low, high float64) (ticks []plot.Tick) {
	decades := math.Log10(high / low)
	for exponent := int(math.Floor(math.Log10(low))); exponent <= int(math.Ceil(math.Log10(high))); exponent++ {
		for digit := 1; digit <= 9; digit++ {
			v := float64(digit) * math.Pow10(exponent)
			if v < low*(1-1e-9) || v > high*(1+1e-9) {
				continue
			}
			label := ""
			if digit == 1 || decades < 3.5 && (digit == 2 || digit == 5) {
				label = strconv.FormatFloat(v, 'g', 6, 64)
				if v >= 1 {
					label = grouped(int(math.Round(v)))
				}
			}
			ticks = append(ticks, plot.Tick{Value: v, Label: label})
		}
	}
	return ticks
}

// drawLengths draws prompt against output, one panel a file, on the same
// scales.
func drawLengths(files []*drawn) (io.WriterTo, error) {
	low, high := plotter.XY{X: 1e9, Y: 1e9}, plotter.XY{X: 1, Y: 1}
	for _, d := range files {
		for _, q := range d.lengths {
			low.X, low.Y = min(low.X, q.X), min(low.Y, q.Y)
			high.X, high.Y = max(high.X, q.X), max(high.Y, q.Y)
		}
	}
	const across = 3
	var panels [][]*plot.Plot
	for i, d := range files {
		title := d.label()
		if d.every > 1 {
			title += fmt.Sprintf(", %s drawn", grouped(len(d.lengths)))
		}
		p := newPlot(title, "prompt, tokens", "output, tokens")
		p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
		p.X.Tick.Marker, p.Y.Tick.Marker = plainLogTicks{}, plainLogTicks{}
		dots, err := plotter.NewScatter(d.lengths)
		if err != nil {
			return nil, err
		}
		dots.Shape, dots.Radius = draw.CircleGlyph{}, vg.Points(1)
		dots.Color = faint(d.colour, len(d.lengths))
		p.Add(dots)
		p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = low.X/1.2, high.X*1.2, low.Y/1.2, high.Y*1.2
		if i%across == 0 {
			panels = append(panels, nil)
		}
		panels[len(panels)-1] = append(panels[len(panels)-1], p)
	}
	for last := len(panels) - 1; len(panels) > 1 && len(panels[last]) < across; {
		panels[last] = append(panels[last], nil)
	}
	return tiled(panels, 13*vg.Centimeter, 12*vg.Centimeter)
}

// faint lets dots that lie on others show how many there are.
func faint(c color.RGBA, dots int) color.Color {
	alpha := min(1, max(0.12, 20/math.Sqrt(float64(dots))))
	return color.NRGBA{R: c.R, G: c.G, B: c.B, A: uint8(255 * alpha)}
}

// tiled draws plots in rows, each of that size, with their axes aligned.
func tiled(plots [][]*plot.Plot, width, height vg.Length) (io.WriterTo, error) {
	rows, columns := len(plots), len(plots[0])
	img := vgimg.New(width*vg.Length(columns), height*vg.Length(rows))
	tiles := draw.Tiles{
		Rows: rows, Cols: columns, PadX: vg.Points(10), PadY: vg.Points(10),
		PadTop: vg.Points(4), PadBottom: vg.Points(4), PadLeft: vg.Points(4), PadRight: vg.Points(12),
	}
	for i, row := range plot.Align(plots, tiles, draw.New(img)) {
		for j, canvas := range row {
			if plots[i][j] != nil {
				plots[i][j].Draw(canvas)
			}
		}
	}
	return vgimg.PngCanvas{Canvas: img}, nil
}
