package costmodel

import (
	"fmt"
	"math"
	"time"

	"servesim/sim"
)

// Roofline is the cost of a whole step of R requests that evaluate N
// positions:
//
//	T(R, N) = h + max(M/W, F/P)
//	M = SharedBytes + Experts.Bytes·Touched(N) + ContextBytesPerRequest·R
//	F = OpsPerPosition·N
//
// with N = R in plain decode and N > R in prefill and verification. The
// maximum of two totals says nothing about dependencies inside the step.
// (Williams, Waterman, Patterson: Roofline, CACM 52(4), 2009.)
type Roofline struct {
	SharedBytes            float64       // moved once a step, such as weights; ≥ 0
	ContextBytesPerRequest float64       // moved for each request, such as its KV cache; ≥ 0
	OpsPerPosition         float64       // operations per evaluated position; ≥ 0
	Bandwidth              float64       // W in bytes per second; > 0
	Rate                   float64       // P in operations per second; > 0
	Overhead               time.Duration // h, serial; 0 makes the model a lower bound
	Experts                Experts       // the zero value is a dense model
}

// Terms are the parts of one step. Times are in seconds.
type Terms struct {
	Requests, Positions int
	Bytes, Ops          float64
	Transfer            float64 // Bytes / Bandwidth
	Compute             float64 // Ops / Rate
	Overhead            float64
	Step                float64 // Overhead + max(Transfer, Compute)
	Bound               Bound
	Claim               Claim
	Intensity           float64 // Ops / Bytes; NaN when both are 0
	Attainable          float64 // min(Rate, Bandwidth·Intensity) in operations per second, without Overhead
	Crossover           float64 // intensity where Transfer = Compute
}

// Claim returns Prediction if the model has an overhead.
func (r Roofline) Claim() Claim {
	if r.Overhead > 0 {
		return Prediction
	}
	return LowerBound
}

// StepTime is the step of b with R = decodes + chunks and N = all positions,
// padding included. Contexts are not looked at: ContextBytesPerRequest stands
// for them.
func (r Roofline) StepTime(b sim.Batch) time.Duration {
	checkBatch(&b)
	requests := b.Decodes + len(b.Prefills)
	positions := b.Positions + b.PrefillTokens() + b.Padding.Rows + b.Padding.PromptTokens
	if err := r.Validate(); err != nil {
		panic(err.Error())
	}
	w := r.work(requests, positions)
	return sim.Round(r.Overhead.Seconds() + max(w.transfer, w.compute))
}

// Terms returns the parts of a step of R requests and N positions, both ≥ 0.
func (r Roofline) Terms(requests, positions int) Terms {
	if requests < 0 || positions < 0 {
		panic(fmt.Sprintf("costmodel: Terms(%d, %d)", requests, positions))
	}
	if err := r.Validate(); err != nil {
		panic(err.Error())
	}
	w, overhead := r.work(requests, positions), r.Overhead.Seconds()
	t := Terms{
		Requests: requests, Positions: positions,
		Bytes: w.bytes, Ops: w.ops,
		Transfer: w.transfer, Compute: w.compute,
		Overhead: overhead, Step: overhead + max(w.transfer, w.compute),
		Claim:     r.Claim(),
		Intensity: w.ops / w.bytes,
		Crossover: r.Rate / r.Bandwidth,
	}
	if w.compute > w.transfer {
		t.Bound = ComputeBound
	}
	t.Attainable = min(r.Rate, r.Bandwidth*t.Intensity)
	return t
}

// work is what a step moves and computes, and how long that takes alone.
type work struct{ bytes, ops, transfer, compute float64 }

func (r *Roofline) work(requests, positions int) work {
	w := work{
		bytes: r.SharedBytes + float64(r.ContextBytesPerRequest*float64(requests)),
		ops:   r.OpsPerPosition * float64(positions),
	}
	if r.Experts.Count > 0 {
		w.bytes += float64(r.Experts.Bytes * r.Experts.Touched(positions))
	}
	w.transfer, w.compute = w.bytes/r.Bandwidth, w.ops/r.Rate
	return w
}

// TokenRate returns the rate of useful tokens per second if the step yields
// that many: R in plain decode, fewer than N when drafts are verified.
func (t Terms) TokenRate(useful float64) float64 { return useful / t.Step }

// Validate names the first field that is out of range.
func (r Roofline) Validate() error {
	// The names are looked up on failure only: this runs once a step.
	switch {
	case !finite(r.SharedBytes):
		return badField("Roofline.SharedBytes", r.SharedBytes)
	case !finite(r.ContextBytesPerRequest):
		return badField("Roofline.ContextBytesPerRequest", r.ContextBytesPerRequest)
	case !finite(r.OpsPerPosition):
		return badField("Roofline.OpsPerPosition", r.OpsPerPosition)
	case !finite(r.Bandwidth) || r.Bandwidth == 0:
		return badField("Roofline.Bandwidth", r.Bandwidth)
	case !finite(r.Rate) || r.Rate == 0:
		return badField("Roofline.Rate", r.Rate)
	case r.Overhead < 0:
		return badField("Roofline.Overhead", r.Overhead)
	}
	return r.Experts.validate()
}

// Experts are the experts of a mixture-of-experts model, with uniform
// routing. The zero value means none.
type Experts struct {
	Count       int     // experts per layer
	PerPosition int     // experts that one position picks, at most Count
	Bytes       float64 // weights of one expert, summed over the layers; ≥ 0
}

// Touched returns the expected number of distinct experts that n positions
// pick: Count·(1 − (1 − PerPosition/Count)^n).
func (e Experts) Touched(n int) float64 {
	if e.Count == 0 {
		return 0
	}
	missed := 1 - float64(e.PerPosition)/float64(e.Count)
	return float64(e.Count) * (1 - math.Pow(missed, float64(n)))
}

func (e Experts) validate() error {
	switch {
	case e.Count < 0:
		return badField("Roofline.Experts.Count", e.Count)
	case e.PerPosition < 0 || e.PerPosition > e.Count:
		return fmt.Errorf("costmodel: Roofline.Experts.PerPosition is %d of %d", e.PerPosition, e.Count)
	case !finite(e.Bytes):
		return badField("Roofline.Experts.Bytes", e.Bytes)
	}
	return nil
}

// finite reports whether x is a number ≥ 0 and not infinite.
func finite(x float64) bool { return x >= 0 && x <= math.MaxFloat64 }

func badField(name string, value any) error {
	return fmt.Errorf("costmodel: %s is %v", name, value)
}
