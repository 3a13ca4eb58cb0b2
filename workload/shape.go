package workload

import (
	"fmt"
	"iter"
	"math"
	"time"

	"servesim/sim"
)

// Shape says more of a sequence of requests than [Description]: how counts
// and gaps follow each other, and how lengths depend on each other. Figures
// that cannot be measured are NaN, and null in JSON.
type Shape struct {
	Arrivals ArrivalShape `json:"arrivals"`
	Lengths  JointShape   `json:"lengths"`
}

// DescribeShape reads a sequence to its end, as [Describe] does.
func DescribeShape(requests iter.Seq2[sim.Request, error]) (Shape, error) {
	var prompts, outputs []int32
	var first, last sim.Time
	arrivals := newShape()
	for q, err := range requests {
		if err != nil {
			return Shape{}, err
		}
		if len(prompts) == 0 {
			first, last = q.Arrival, q.Arrival
		}
		if q.Arrival < last {
			return Shape{}, fmt.Errorf("workload: request %d arrives at %v, before %v", q.ID, q.Arrival, last)
		}
		if q.Prompt < 0 || q.Prompt > maxTokens || q.Output < 0 || q.Output > maxTokens {
			return Shape{}, fmt.Errorf("workload: request %d has prompt %d, output %d", q.ID, q.Prompt, q.Output)
		}
		last = q.Arrival
		arrivals.add(last.Sub(first))
		prompts = append(prompts, int32(q.Prompt))
		outputs = append(outputs, int32(q.Output))
	}
	return Shape{Arrivals: arrivals.figures(), Lengths: jointShape(prompts, outputs)}, nil
}

// ArrivalShape says more of how requests arrive than rate, CV and IDC.
type ArrivalShape struct {
	// MeanGap and LongestGap are times between two arrivals, s.
	MeanGap    Figure `json:"mean_gap_s"`
	LongestGap Figure `json:"longest_gap_s"`
	// ZeroGaps is the share of gaps that are 0.
	ZeroGaps Figure `json:"zero_gaps"`
	// GapACF is the autocorrelation of successive gaps.
	GapACF Figure `json:"gap_acf"`
	// EmptySeconds is the share of windows of 1 s in which nothing arrives.
	EmptySeconds Figure `json:"empty_seconds"`
	// CountACF1, CountACF10 and CountACF60 are autocorrelations of the counts
	// in windows of 1 s, so many seconds apart.
	CountACF1  Figure `json:"count_acf_1s"`
	CountACF10 Figure `json:"count_acf_10s"`
	CountACF60 Figure `json:"count_acf_60s"`
	// Batches are the requests that arrive at one instant.
	Batches BatchShape `json:"batches"`
	// Windows are the counts in windows of 1, 10, 60 and 300 s, aligned to the
	// first arrival, without the last, partial one. There are figures however
	// few windows there are: weigh them by their number.
	Windows []WindowShape `json:"windows"`
}

// BatchShape describes the numbers of requests that arrive together. Where no
// two do, all have one.
type BatchShape struct {
	Batches int    `json:"batches"`
	Mean    Figure `json:"mean"`
	IDC     Figure `json:"idc"` // variance of the population / mean
	P99     Figure `json:"p99"`
	Max     Figure `json:"max"`
	ACF     Figure `json:"acf"` // autocorrelation of successive sizes
}

// WindowShape describes the numbers of arrivals in windows of one width.
type WindowShape struct {
	Seconds int    `json:"seconds"` // width
	Windows int    `json:"windows"` // how many
	IDC     Figure `json:"idc"`     // variance of the population / mean
	P99     Figure `json:"p99_over_mean"`
	Max     Figure `json:"max_over_mean"`
}

// shapeWidths are the widths of windows, s.
var shapeWidths = [...]int{1, 10, 60, 300}

// shape collects an ArrivalShape.
type shape struct {
	arrivals int
	last     time.Duration
	gaps     serial // s
	longest  float64
	zero     int
	batches  serial
	sizes    counts // of batches
	batch    float64
	windows  [len(shapeWidths)]windowShape
	acf      countACF
}

func newShape() *shape {
	s := &shape{sizes: counts{}}
	for i, w := range shapeWidths {
		s.windows[i] = windowShape{windows: windows{width: time.Duration(w) * time.Second}, counts: counts{}}
	}
	s.windows[0].closed = s.acf.add
	return s
}

// add counts an arrival at a time since the first.
func (s *shape) add(at time.Duration) {
	if s.arrivals > 0 {
		gap := (at - s.last).Seconds()
		s.gaps.add(gap)
		s.longest = max(s.longest, gap)
		if at == s.last {
			s.zero++
		} else {
			s.endBatch()
		}
	}
	s.arrivals++
	s.batch++
	s.last = at
	for i := range s.windows {
		s.windows[i].add(at)
	}
}

func (s *shape) endBatch() {
	s.batches.add(s.batch)
	s.sizes[s.batch]++
	s.batch = 0
}

// figures is called once, at the end.
func (s *shape) figures() ArrivalShape {
	if s.arrivals > 0 {
		s.endBatch()
	}
	gaps := s.arrivals - 1
	seconds := &s.windows[0]
	out := ArrivalShape{
		MeanGap:      orNaN(s.last.Seconds()/float64(gaps), gaps > 0),
		LongestGap:   orNaN(s.longest, gaps > 0),
		ZeroGaps:     orNaN(float64(s.zero)/float64(gaps), gaps > 0),
		GapACF:       s.gaps.acf(),
		EmptySeconds: orNaN(1-float64(seconds.counts.total())/float64(seconds.done), seconds.done > 0),
		CountACF1:    s.acf.at(1, seconds),
		CountACF10:   s.acf.at(10, seconds),
		CountACF60:   s.acf.at(60, seconds),
		Batches:      s.batchFigures(),
	}
	for i, w := range shapeWidths {
		out.Windows = append(out.Windows, s.windows[i].figures(w))
	}
	return out
}

func (s *shape) batchFigures() BatchShape {
	none := Figure(math.NaN())
	if s.arrivals == 0 {
		return BatchShape{Mean: none, IDC: none, P99: none, Max: none, ACF: none}
	}
	n := s.batches.n
	mean := float64(s.arrivals) / n
	sorted := s.sizes.sorted()
	return BatchShape{
		Batches: int(n), Mean: Figure(mean), IDC: orNaN(s.batches.m2/n/mean, n > 1), ACF: s.batches.acf(),
		P99: Figure(s.sizes.quantile(sorted, int(n), .99)), Max: Figure(sorted[len(sorted)-1]),
	}
}

// windowShape counts arrivals in windows and how often each number occurs.
type windowShape struct {
	windows
	counts counts                           // windows by arrivals, without those without
	closed func(index int64, count float64) // told of each window with arrivals; may be nil
}

func (w *windowShape) add(at time.Duration) {
	if int64(at/w.width) > w.done {
		w.counts[w.current]++
		if w.closed != nil {
			w.closed(w.done, w.current)
		}
	}
	w.windows.add(at)
}

func (w *windowShape) figures(seconds int) WindowShape {
	none := Figure(math.NaN())
	if w.done == 0 {
		return WindowShape{Seconds: seconds, IDC: none, P99: none, Max: none}
	}
	n := float64(w.done)
	mean := w.sum / n // above 0: the first window has arrivals
	sorted := w.counts.sorted()
	return WindowShape{
		Seconds: seconds, Windows: int(w.done),
		IDC: orNaN((w.squares/n-float64(mean*mean))/mean, w.done > 1),
		P99: Figure(w.counts.quantile(sorted, int(w.done), .99) / mean),
		Max: Figure(sorted[len(sorted)-1] / mean),
	}
}
