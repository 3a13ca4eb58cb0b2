package workload

import (
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"strconv"
	"time"

	"gonum.org/v1/gonum/stat"

	"servesim/sim"
)

// Description is what a sequence of requests is like. Its JSON is one flat
// object: the names of the tags here, then prompt_… and output_… for the
// summaries. Figures that cannot be measured are NaN, and null in JSON.
type Description struct {
	// Requests is the number of requests.
	Requests int `json:"requests"`
	// Span is the time from the first to the last arrival, s.
	Span Figure `json:"span_s"`
	// Rate is Requests/Span, requests per second.
	Rate Figure `json:"rate_per_s"`
	// GapCV is the standard deviation of the gaps, of the population, divided
	// by their mean.
	GapCV Figure `json:"gap_cv"`
	// IDC1, IDC10 and IDC60 are indices of dispersion: the variance, of the
	// population, of the number of arrivals in windows of 1, 10 and 60 s,
	// divided by its mean. Windows are aligned to the first arrival and the
	// last, partial one is dropped. With fewer than 10 windows there is no
	// figure.
	IDC1  Figure `json:"idc_1s"`
	IDC10 Figure `json:"idc_10s"`
	IDC60 Figure `json:"idc_60s"`
	// Spearman is the rank correlation of prompt and output length, ties
	// having their mean rank. Near 0 it does not mean independence.
	Spearman Figure `json:"prompt_output_spearman"`
	// Prompt and Output summarise the lengths in tokens.
	Prompt Summary `json:"-"`
	Output Summary `json:"-"`
}

// Figure is a measured value; NaN means not measured.
type Figure float64

// MarshalJSON writes NaN and infinities as null.
func (f Figure) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(f)) || math.IsInf(float64(f), 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(f))
}

// String formats the value with four significant digits, – if there is none.
func (f Figure) String() string {
	if math.IsNaN(float64(f)) {
		return "–"
	}
	return strconv.FormatFloat(float64(f), 'g', 4, 64)
}

// Describe reads a sequence to its end. It holds the lengths, 8 bytes per
// request; the arrivals stream. Arrivals that go back are an error, as is an error of the sequence.
func Describe(requests iter.Seq2[sim.Request, error]) (Description, error) {
	var gaps moments
	counts := [...]windows{{width: time.Second}, {width: 10 * time.Second}, {width: time.Minute}}
	var prompts, outputs []int32
	var first, last sim.Time
	for q, err := range requests {
		if err != nil {
			return Description{}, err
		}
		if len(prompts) == 0 {
			first = q.Arrival
		} else if q.Arrival < last {
			return Description{}, fmt.Errorf("workload: request %d arrives at %v, before %v", q.ID, q.Arrival, last)
		} else {
			gaps.add(q.Arrival.Sub(last).Seconds())
		}
		if q.Prompt < 0 || q.Prompt > maxTokens || q.Output < 0 || q.Output > maxTokens {
			return Description{}, fmt.Errorf("workload: request %d has prompt %d, output %d", q.ID, q.Prompt, q.Output)
		}
		last = q.Arrival
		for i := range counts {
			counts[i].add(last.Sub(first))
		}
		prompts = append(prompts, int32(q.Prompt))
		outputs = append(outputs, int32(q.Output))
	}
	span := last.Sub(first).Seconds()
	return Description{
		Requests: len(prompts),
		Span:     orNaN(span, len(prompts) > 0),
		Rate:     orNaN(float64(len(prompts))/span, span > 0),
		GapCV:    gaps.cv(),
		IDC1:     counts[0].idc(),
		IDC10:    counts[1].idc(),
		IDC60:    counts[2].idc(),
		Spearman: orNaN(stat.Correlation(ranks(prompts), ranks(outputs), nil), len(prompts) > 1),
		Prompt:   summarise(prompts),
		Output:   summarise(outputs),
	}, nil
}

func orNaN(v float64, measured bool) Figure {
	if !measured {
		return Figure(math.NaN())
	}
	return Figure(v)
}

// moments keeps mean and sum of squared deviations (Welford, 1962).
type moments struct {
	n, mean, m2 float64
}

func (m *moments) add(x float64) {
	m.n++
	d := x - m.mean
	m.mean += d / m.n
	m.m2 += float64(d * (x - m.mean))
}

// cv is the coefficient of variation of the population.
func (m *moments) cv() Figure {
	return orNaN(math.Sqrt(m.m2/m.n)/m.mean, m.mean > 0 && m.n > 1)
}

// minWindows is the number of windows below which a variance says nothing.
const minWindows = 10

// windows counts arrivals in aligned windows of one width.
type windows struct {
	width   time.Duration
	done    int64   // complete windows, the current one is the next
	current float64 // arrivals in the current window
	sum     float64 // of the counts of complete windows
	squares float64
}

// add counts an arrival at a time since the first.
func (w *windows) add(at time.Duration) {
	if index := int64(at / w.width); index > w.done {
		w.sum += w.current
		w.squares += float64(w.current * w.current)
		w.current = 0
		w.done = index // those between are empty
	}
	w.current++
}

func (w *windows) idc() Figure {
	n := float64(w.done)
	mean := w.sum / n
	return orNaN((w.squares/n-float64(mean*mean))/mean, w.done >= minWindows && w.sum > 0)
}
