package workload

import (
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"time"

	"servesim/sim"
)

// MLPerfServer is the arrivals of MLPerf LoadGen's Server scenario: the first
// query at 0, exponential gaps cut to whole nanoseconds, until a query comes at
// MinDuration or later and there are MinQueries. That last query is issued
// too, so the schedule runs up to one gap past MinDuration.
type MLPerfServer struct {
	TargetQPS   float64       `doc:"rate_per_s"`         // above 0
	MinDuration time.Duration `doc:"min_duration_s,opt"` // 0 means 600 s
	MinQueries  int           `doc:"min_queries,opt"`    // at least 0
}

// Validate reports an invalid field.
func (m MLPerfServer) Validate() error {
	switch {
	case m.MinDuration < 0:
		return fmt.Errorf("MLPerfServer.MinDuration is %v, want at least 0", m.MinDuration)
	case m.MinQueries < 0:
		return fmt.Errorf("MLPerfServer.MinQueries is %d, want at least 0", m.MinQueries)
	}
	return checkRate("MLPerfServer.TargetQPS", m.TargetQPS)
}

// Times implements [Arrivals].
func (m MLPerfServer) Times(r *rand.Rand) iter.Seq2[sim.Time, error] {
	return func(yield func(sim.Time, error) bool) {
		if err := m.Validate(); err != nil {
			fail(yield, err)
			return
		}
		end := sim.Time(m.MinDuration)
		if end == 0 {
			end = sim.Time(600 * time.Second)
		}
		t := sim.Time(0)
		for n := 1; yield(t, nil) && (t < end || n < m.MinQueries); n++ {
			gap := math.Floor(r.ExpFloat64() / m.TargetQPS * 1e9)
			if gap >= float64(math.MaxInt64-t) {
				fail(yield, errNoTime)
				return
			}
			t += sim.Time(gap)
		}
	}
}
