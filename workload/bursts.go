package workload

import (
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"time"

	"servesim/sim"
)

// Bursts is Size simultaneous arrivals every Every, the first burst at 0. Its
// rate is Size/Every.
type Bursts struct {
	Size  int           `doc:"size"`    // arrivals of one burst, at least 1
	Every time.Duration `doc:"every_s"` // from burst to burst, above 0
}

// Validate reports an invalid field.
func (b Bursts) Validate() error {
	if b.Size < 1 {
		return fmt.Errorf("Bursts.Size is %d, want at least 1", b.Size)
	}
	if b.Every <= 0 {
		return fmt.Errorf("Bursts.Every is %v, want more than 0", b.Every)
	}
	return nil
}

// Times implements [Arrivals].
func (b Bursts) Times(*rand.Rand) iter.Seq2[sim.Time, error] {
	return func(yield func(sim.Time, error) bool) {
		if err := b.Validate(); err != nil {
			fail(yield, err)
			return
		}
		for t := sim.Time(0); ; t = t.Add(b.Every) {
			for range b.Size {
				if !yield(t, nil) {
					return
				}
			}
			if t > math.MaxInt64-sim.Time(b.Every) {
				fail(yield, errNoTime)
				return
			}
		}
	}
}
