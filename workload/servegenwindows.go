package workload

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"time"

	"gonum.org/v1/gonum/stat/distuv"

	"servesim/sim"
)

// ServeGenWindows is the arrivals of one client as ServeGen (Xiang et al.,
// 2025) makes them: window by window a fixed number ⌈Rate·Width⌉ of gamma or
// Weibull gaps, scaled to sum to Width. [Superpose] adds clients up.
//
// The last request of a window thus comes at its end and is dropped, unless
// rounding puts it before: it is kept in about a third of the windows with 50
// requests, and a client with one request in a window is silent in 99 % of
// them. The number of requests hardly varies, and the scale of the recorded
// laws does not matter.
type ServeGenWindows struct {
	Windows []ServeGenWindow `doc:"windows"`     // in order of time, not overlapping
	Width   time.Duration    `doc:"width_s,opt"` // of every window; 0 means 600 s
}

// ServeGenWindow is a window of a client.
type ServeGenWindow struct {
	Start   time.Duration  `doc:"start_s"`     // at least 0
	Rate    float64        `doc:"rate_per_s"`  // requests per second, at least 0
	Pattern ServeGenGapLaw `doc:"pattern,opt"` // how gaps are distributed
	Shape   float64        `doc:"shape,opt"`   // of that law, above 0, at most 100
}

// ServeGenGapLaw names the law of the gaps of a window as the files do.
type ServeGenGapLaw string

// The laws of ServeGen.
const (
	ServeGenIdle    ServeGenGapLaw = "" // no requests
	ServeGenGamma   ServeGenGapLaw = "Gamma"
	ServeGenWeibull ServeGenGapLaw = "Weibull"
)

// Validate reports an invalid field.
func (s ServeGenWindows) Validate() error {
	if len(s.Windows) == 0 {
		return errors.New("no Windows in ServeGenWindows")
	}
	if s.Width < 0 {
		return fmt.Errorf("ServeGenWindows.Width is %v, want at least 0", s.Width)
	}
	least := time.Duration(0) // start of the next window
	for i, w := range s.Windows {
		if w.Start < least || w.Start > math.MaxInt64-2*s.width() {
			return fmt.Errorf("ServeGenWindows.Windows[%d].Start is %v, want at least %v", i, w.Start, least)
		}
		least = w.Start + s.width()
		if err := w.validate(); err != nil {
			return fmt.Errorf("ServeGenWindows.Windows[%d].%w", i, err)
		}
		if n := w.Rate * s.width().Seconds(); n > maxWindowGaps {
			return fmt.Errorf("ServeGenWindows.Windows[%d].Rate is %v: %.0f requests in a window, want at most %.0f", i, w.Rate, n, float64(maxWindowGaps))
		}
	}
	return nil
}

// maxWindowGaps bounds what is held at a time.
const maxWindowGaps = 1e8

func (w ServeGenWindow) validate() error {
	switch w.Pattern {
	case ServeGenIdle:
		return nil
	case ServeGenGamma, ServeGenWeibull:
	default:
		return fmt.Errorf("%s is %q, want %q, %q or empty", "Pattern", w.Pattern, ServeGenGamma, ServeGenWeibull)
	}
	if !(w.Rate >= 0 && w.Rate <= maxRate) {
		return fmt.Errorf("%s is %v, want 0 to 1e9", "Rate", w.Rate)
	}
	if !(w.Shape > 0 && w.Shape <= 100) {
		return fmt.Errorf("%s is %v, want above 0, at most 100", "Shape", w.Shape)
	}
	return nil
}

func (s ServeGenWindows) width() time.Duration {
	if s.Width == 0 {
		return 600 * time.Second
	}
	return s.Width
}

// Times implements [Arrivals].
func (s ServeGenWindows) Times(r *rand.Rand) iter.Seq2[sim.Time, error] {
	return func(yield func(sim.Time, error) bool) {
		if err := s.Validate(); err != nil {
			fail(yield, err)
			return
		}
		for _, w := range s.Windows {
			if !yieldSeconds(sim.Time(w.Start), w.instants(s.width().Seconds(), r), yield) {
				return
			}
		}
	}
}

// instants are the arrivals in seconds into the window. The operations and
// their order decide by rounding whether the last is among them.
func (w ServeGenWindow) instants(width float64, r *rand.Rand) []float64 {
	if w.Pattern == ServeGenIdle {
		return nil
	}
	gaps := make([]float64, int(math.Ceil(w.Rate*width)))
	draw := distuv.Weibull{K: w.Shape, Lambda: 1, Src: r}.Rand
	if w.Pattern == ServeGenGamma {
		g := newLogGamma(w.Shape)
		draw = func() float64 { return math.Exp(g.draw(r)) }
	}
	sum := 0.0
	for i := range gaps {
		gaps[i] = draw()
		sum += gaps[i]
	}
	scale := width / sum
	at := 0.0
	for i, gap := range gaps {
		at += float64(gap * scale)
		if !(at < width) { // also where all gaps are too small for a float64
			return gaps[:i]
		}
		gaps[i] = at
	}
	return gaps
}
