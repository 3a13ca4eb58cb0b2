package trace

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"servesim/sim"
)

// Clock says which process reports an instant.
type Clock uint8

// The clocks of a record. The phases network_in, gateway and network_to_first
// run from one clock to another.
const (
	ClientClock  Clock = iota // client_send, first_token_client, last_token_client, client_tokens
	GatewayClock              // gateway_arrival
	EngineClock               // queue_enter, prefill_start, prefill_end, first_token_server, server_tokens

	numClocks
)

// clocks are the clocks of a record's instants.
var clocks = [instants]Clock{ClientClock, GatewayClock, EngineClock, EngineClock, EngineClock, EngineClock, ClientClock, ClientClock}

// String returns client, gateway or engine.
func (c Clock) String() string {
	switch c {
	case ClientClock:
		return "client"
	case GatewayClock:
		return "gateway"
	case EngineClock:
		return "engine"
	}
	return fmt.Sprintf("clock(%d)", uint8(c))
}

// ClockSkew is a clock that is By ahead; negative is behind.
type ClockSkew struct {
	Clock Clock
	By    time.Duration
}

// Apply moves every instant of the clock.
func (f ClockSkew) Apply(entries iter.Seq2[Entry, error], mark func(string)) iter.Seq2[Entry, error] {
	bad := f.Clock.check("ClockSkew", f.By)
	return f.Clock.read(entries, mark, bad, func(sim.Time) time.Duration { return f.By })
}

// ClockDrift is a clock that gains PerSecond for each second behind From, at
// which it is right; negative loses. A quartz clock is within ±100 µs.
type ClockDrift struct {
	Clock     Clock
	From      sim.Time
	PerSecond time.Duration
}

// Apply moves every instant of the clock by its distance from From, rounded to
// a nanosecond.
func (f ClockDrift) Apply(entries iter.Seq2[Entry, error], mark func(string)) iter.Seq2[Entry, error] {
	bad := f.Clock.check("ClockDrift", f.PerSecond)
	if bad == nil && (f.PerSecond <= -time.Second || f.PerSecond >= time.Second) {
		bad = fmt.Errorf("trace: ClockDrift.PerSecond is %v, want less than 1s either way", f.PerSecond)
	}
	return f.Clock.read(entries, mark, bad, func(t sim.Time) time.Duration {
		seconds := (float64(t) - float64(f.From)) / 1e9
		return time.Duration(math.Round(seconds * float64(f.PerSecond)))
	})
}

// ClockStep is a clock that is right up to At and By ahead from there;
// negative is set back.
type ClockStep struct {
	Clock Clock
	At    sim.Time
	By    time.Duration
}

// Apply moves the instants of the clock from At on.
func (f ClockStep) Apply(entries iter.Seq2[Entry, error], mark func(string)) iter.Seq2[Entry, error] {
	bad := f.Clock.check("ClockStep", f.By)
	return f.Clock.read(entries, mark, bad, func(t sim.Time) time.Duration {
		if t < f.At {
			return 0
		}
		return f.By
	})
}

func (c Clock) check(fault string, by time.Duration) error {
	switch {
	case c >= numClocks:
		return fmt.Errorf("trace: %s.Clock is %v", fault, c)
	case !inRange(sim.Time(by)):
		return fmt.Errorf("trace: %s moves by %v, beyond 146 years", fault, by)
	}
	return nil
}

// read is what the clock shows where it is off by error at each true instant.
func (c Clock) read(entries iter.Seq2[Entry, error], mark func(string), bad error, off func(sim.Time) time.Duration) iter.Seq2[Entry, error] {
	return each(entries, mark, bad, func() func(*Entry) (bool, error) {
		return func(e *Entry) (touched bool, err error) {
			move := func(name string, t *sim.Time) {
				if *t == Unknown || err != nil {
					return
				}
				d := off(*t)
				shown := t.Add(d)
				if !inRange(*t) || !inRange(sim.Time(d)) || !inRange(shown) {
					err = fmt.Errorf("trace: request %q: the %v clock moves %s beyond 146 years", e.RequestID, c, name)
				}
				*t = shown
				touched = touched || d != 0
			}
			for i, t := range e.instants() {
				if clocks[i] == c {
					move(fieldNames[firstOf+i], t)
				}
			}
			switch c {
			case EngineClock:
				e.Details.ServerTokens = slices.Clone(e.Details.ServerTokens)
				for i := range e.Details.ServerTokens {
					move("server_tokens_ms", &e.Details.ServerTokens[i])
				}
			case ClientClock:
				e.Details.ClientTokens = slices.Clone(e.Details.ClientTokens)
				for i := range e.Details.ClientTokens {
					move("client_tokens_ms", &e.Details.ClientTokens[i])
				}
			}
			return touched, err
		}
	})
}
