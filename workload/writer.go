package workload

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"strconv"
	"time"

	"servesim/sim"
)

// ErrLossy is what an error about a request that a format has no place for is,
// as errors.Is tells: the writer's Lossy writes it without what is lost.
var ErrLossy = errors.New("the format would lose something")

// lossyError is an ErrLossy that says what.
type lossyError string

func (e lossyError) Error() string        { return string(e) }
func (e lossyError) Is(target error) bool { return target == ErrLossy }

// lost returns an error if a request has something besides arrival, lengths
// and, if the format has them, prefixes. IDs are numbers of rows and come back
// unless rows were dropped.
func lost(q *sim.Request, format string, prefixes bool) error {
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"Prefix", len(q.Prefix) > 0 && !prefixes},
		{"MaxOutput", q.MaxOutput != 0}, {"Hint", q.Hint != 0}, {"Class", q.Class != 0}, {"Deadline", q.Deadline != 0},
		{"NoPrefixRead", q.NoPrefixRead}, {"Patience", q.Patience != sim.Patience{}},
	} {
		if f.set {
			return lossyError(fmt.Sprintf("workload: request %d has %s, which %s has no place for (Lossy leaves it out)", q.ID, f.name, format))
		}
	}
	return nil
}

// eachInOrder calls do for each request until it returns an error.
func eachInOrder(requests iter.Seq2[sim.Request, error], do func(*sim.Request) error) error {
	last := sim.Time(0)
	for q, err := range requests {
		switch {
		case err != nil:
			return err
		case q.Arrival < last:
			return fmt.Errorf("workload: request %d arrives at %v, before %v", q.ID, q.Arrival, last)
		case q.Prompt < 1 || q.Prompt > maxTokens || q.Output < 1 || q.Output > maxTokens:
			return fmt.Errorf("workload: request %d has prompt %d, output %d, want 1 to %d", q.ID, q.Prompt, q.Output, maxTokens)
		}
		last = q.Arrival
		if err := do(&q); err != nil {
			return err
		}
	}
	return nil
}

// sum returns the nanoseconds of an arrival after an origin, which readers
// accept.
func sum(origin time.Duration, arrival sim.Time) (int64, error) {
	const latest = math.MaxInt64 / 1_000_000 * 1_000_000 // a whole millisecond
	if int64(arrival) >= latest-int64(origin) {
		return 0, fmt.Errorf("arrives at %v after %v, which is after 292 years", arrival, origin)
	}
	return int64(origin) + int64(arrival), nil
}

// appendMillis appends nanoseconds, at least 0, as milliseconds: the shortest
// decimal that is exact.
func appendMillis(b []byte, ns int64) []byte {
	b = strconv.AppendInt(b, ns/1e6, 10)
	rest := ns % 1e6
	if rest == 0 {
		return b
	}
	b = append(b, '.')
	for place := int64(1e5); rest > 0; place /= 10 {
		b = append(b, byte('0'+rest/place))
		rest %= place
	}
	return b
}
