package profile

import "servesim/sim/trace"

// residual is the name of the time in no measured phase, where a phase's name
// stands.
const residual = "residual"

// remedies hold, for each phase that dominates, the test that tells its causes
// apart, and what to change behind it.
var remedies = [trace.NumPhases]struct{ test, change string }{
	trace.NetworkIn:      {"call from beside the gateway, over a connection that is open", "a nearer endpoint, kept connections, smaller requests"},
	trace.Gateway:        {"time authentication, rate limiting, tokenisation and routing apart, with nothing behind them", "the slowest of these steps"},
	trace.Queue:          {"replay at half the rate: what remains is order, what goes is load", "capacity for the phase that holds the queue, admission, or the order of the queue"},
	trace.Prefill:        {"repeat with half the prompt, and with a warm prefix cache", "less uncached context, faster kernels, or prompt work that is split or moved"},
	trace.FirstDecode:    {"time the first decode step, the sampler and the copy to the host apart, on an idle server", "whichever of the three is slow"},
	trace.NetworkToFirst: {"compare token times at server and client", "flushing every chunk, and proxies that do not buffer"},
	trace.Stream:         {"compare the gaps at batch 1 with those under load", "decode bandwidth, batch size, cache locality, or the length of answers"},
}

// What to do where the time lies in no phase.
const (
	residualTest   = "record the instants that are missing: until then no phase can be blamed"
	residualChange = "the instrumentation"
)

// NextTest returns what to try first where the phase dominates. It panics for
// what is no phase.
func NextTest(p trace.Phase) string { return remedies[p].test }

// Intervention returns what to change where the phase dominates and the next
// test bears it out. It panics for what is no phase.
func Intervention(p trace.Phase) string { return remedies[p].change }

// Dominant is the phase with the largest mean. Ties go to the first in order.
type Dominant struct {
	Phase    string `json:"phase"` // or residual, where more time lies in no phase
	MeanMs   Number `json:"mean_ms"`
	Share    Number `json:"share"` // of the mean total
	NextTest string `json:"next_test"`
	Change   string `json:"change"` // if the test bears it out
}

// dominant picks the largest of the means, or the residual if it is larger.
func dominant(means []Number, rest, whole Number) Dominant {
	best := 0
	for p, mean := range means {
		if mean > means[best] || mean.Defined() && !means[best].Defined() {
			best = p
		}
	}
	d := Dominant{Phase: trace.Phase(best).String(), MeanMs: means[best], NextTest: remedies[best].test, Change: remedies[best].change}
	if rest > d.MeanMs || rest > 0 && !d.MeanMs.Defined() {
		d = Dominant{Phase: residual, MeanMs: rest, NextTest: residualTest, Change: residualChange}
	}
	d.Share = over(float64(d.MeanMs), float64(whole))
	return d
}
