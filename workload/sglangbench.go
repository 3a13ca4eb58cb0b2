package workload

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"servesim/sim"
)

// SGLangBench is the arrivals of SGLang's serving benchmark (bench_serving):
// the first request at 0, then an exponential sleep after every request that
// was sent. What sending takes is not made up for, so the rate that is
// delivered is 1/(1/Rate + Sending).
type SGLangBench struct {
	Rate float64 `doc:"rate_per_s"` // --request-rate, above 0
	// Sending is the time between waking up and sleeping again, at least 0.
	// 0.45 ms make 183 of 200 requests per second.
	Sending time.Duration `doc:"sending_ms,opt"`
}

// Validate reports an invalid field.
func (s SGLangBench) Validate() error {
	if s.Sending < 0 {
		return fmt.Errorf("SGLangBench.Sending is %v, want at least 0", s.Sending)
	}
	return checkRate("SGLangBench.Rate", s.Rate)
}

// Times implements [Arrivals].
func (s SGLangBench) Times(r *rand.Rand) iter.Seq2[sim.Time, error] {
	return func(yield func(sim.Time, error) bool) {
		first := true
		renewal(s, func() float64 {
			if first {
				first = false
				return 0
			}
			return s.Sending.Seconds() + r.ExpFloat64()/s.Rate
		})(yield)
	}
}
