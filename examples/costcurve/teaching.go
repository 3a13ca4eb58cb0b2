package main

import (
	"math"
	"time"

	"servesim/costmodel"
)

// base has round constants, so that every figure below can be checked by hand.
var base = costmodel.Roofline{
	SharedBytes:            4e6,
	ContextBytesPerRequest: 1e5,
	OpsPerPosition:         2e6,
	Bandwidth:              1e11,
	Rate:                   1e12,
	Overhead:               20 * time.Microsecond,
}

const latencyLimit = 150 * time.Microsecond

// teaching is what the roofline base says.
type teaching struct {
	Constants    constants      `json:"constants"`
	Claim        string         `json:"claim"`
	Decode       []point        `json:"decode"`
	Crossover    int            `json:"crossover_requests"`
	OpsPerByte   float64        `json:"crossover_ops_per_byte"`
	RateLimit    float64        `json:"rate_limit_tok_per_s"`
	Growth       growth         `json:"growth"`
	WhatIf       []whatIf       `json:"what_if"`
	Verification []verification `json:"verification"`
	Free         int            `json:"free_positions"`
	BestUseful   int            `json:"best_useful_positions"`
	Limited      []limited      `json:"within_limit"`
	Unequal      unequal        `json:"unequal_steps"`
}

type constants struct {
	SharedBytes    float64 `json:"shared_bytes"`
	ContextBytes   float64 `json:"context_bytes_per_request"`
	OpsPerPosition float64 `json:"ops_per_position"`
	Bandwidth      float64 `json:"bandwidth_bytes_per_s"`
	Rate           float64 `json:"rate_ops_per_s"`
	OverheadUs     float64 `json:"overhead_us"`
}

// point is a step of a roofline.
type point struct {
	Requests   int     `json:"requests"`
	Positions  int     `json:"positions"`
	TransferUs float64 `json:"transfer_us"`
	ComputeUs  float64 `json:"compute_us"`
	StepUs     float64 `json:"step_us"`
	TokenRate  float64 `json:"tok_per_s"` // one token a request
	Bound      string  `json:"bound"`
	Intensity  float64 `json:"ops_per_byte"`
	Attainable float64 `json:"attainable_ops_per_s"`
}

// growth compares a batch of To with one of From.
type growth struct {
	From int     `json:"from_requests"`
	To   int     `json:"to_requests"`
	Time float64 `json:"time_factor"`
	Rate float64 `json:"rate_factor"`
}

// whatIf compares one batch before and after a change.
type whatIf struct {
	Change   string  `json:"change"`
	BeforeUs float64 `json:"before_us"`
	After    point   `json:"after"`
}

// verification is a step of one batch that checks drafts.
type verification struct {
	point
	Useful     *int     `json:"useful_tokens"` // null if not given
	UsefulRate *float64 `json:"useful_tok_per_s"`
}

// limited is the largest batch within the latency limit.
type limited struct {
	Change  string  `json:"change"`
	LimitUs float64 `json:"limit_us"`
	Largest point   `json:"largest"`
	Next    point   `json:"one_more"`
	AtBase  point   `json:"at_base_batch"` // the batch that the unchanged roofline allows
	Limit   float64 `json:"rate_limit_tok_per_s"`
}

// unequal shows that step rates must not be averaged.
type unequal struct {
	Requests []int   `json:"requests"`
	Rate     float64 `json:"tok_per_s"`
	MeanRate float64 `json:"mean_of_rates"`
}

// change is an edit of the roofline.
type change struct {
	name string
	edit func(*costmodel.Roofline)
}

func (c change) apply() costmodel.Roofline {
	r := base
	c.edit(&r)
	return r
}

var (
	nothing     = change{"as it is", func(*costmodel.Roofline) {}}
	doubleRate  = change{"rate ×2", func(r *costmodel.Roofline) { r.Rate *= 2 }}
	fourContext = change{"context bytes ×4", func(r *costmodel.Roofline) { r.ContextBytesPerRequest *= 4 }}
	halfHost    = change{"overhead /2", func(r *costmodel.Roofline) { r.Overhead /= 2 }}
	halfOps     = change{"operations /2", func(r *costmodel.Roofline) { r.OpsPerPosition /= 2 }}
	halfBoth    = change{"overhead /2, operations /2", func(r *costmodel.Roofline) { r.Overhead /= 2; r.OpsPerPosition /= 2 }}
)

func newTeaching() teaching {
	t := teaching{
		Constants: constants{base.SharedBytes, base.ContextBytesPerRequest, base.OpsPerPosition,
			base.Bandwidth, base.Rate, us(base.Overhead.Seconds())},
		Claim:      base.Claim().String(),
		Crossover:  base.Crossover(),
		OpsPerByte: base.Terms(1, 1).Crossover,
		RateLimit:  round(base.RateLimit(), 1),
		Growth:     newGrowth(16, 64),
		Free:       base.FreePositions(16),
		Unequal:    newUnequal(16, 128),
	}
	for _, n := range []int{1, 4, 8, 16, 32, 40, 64, 128} {
		t.Decode = append(t.Decode, newPoint(base.Terms(n, n)))
	}
	for _, w := range []struct {
		change   change
		requests int
	}{
		{doubleRate, 16}, {fourContext, 32}, {halfHost, 4}, {halfHost, 64},
		{halfOps, 4}, {halfOps, 64}, {halfBoth, 4}, {halfBoth, 64},
	} {
		t.WhatIf = append(t.WhatIf, whatIf{w.change.name, us(base.Terms(w.requests, w.requests).Step),
			newPoint(w.change.apply().Terms(w.requests, w.requests))})
	}
	t.Verification, t.BestUseful = newVerification(16)
	for _, c := range []change{nothing, fourContext} {
		t.Limited = append(t.Limited, newLimited(c))
	}
	return t
}

func newPoint(t costmodel.Terms) point {
	return point{
		Requests: t.Requests, Positions: t.Positions,
		TransferUs: us(t.Transfer), ComputeUs: us(t.Compute), StepUs: us(t.Step),
		TokenRate: round(t.TokenRate(float64(t.Requests)), 1), Bound: t.Bound.String(),
		Intensity: round(t.Intensity, 4), Attainable: round(t.Attainable, 0),
	}
}

func newGrowth(from, to int) growth {
	a, b := base.Terms(from, from), base.Terms(to, to)
	return growth{from, to, round(b.Step/a.Step, 4), round(b.TokenRate(float64(to))/a.TokenRate(float64(from)), 4)}
}

// newVerification lists steps of equally many requests with more and more
// positions, and the positions with the best rate of useful tokens.
func newVerification(requests int) (rows []verification, best int) {
	highest := 0.0
	for _, v := range []struct{ positions, useful int }{{16, 0}, {28, 0}, {29, 0}, {32, 24}, {64, 28}, {96, 0}} {
		t := base.Terms(requests, v.positions)
		row := verification{point: newPoint(t)}
		if v.useful > 0 {
			rate := round(t.TokenRate(float64(v.useful)), 1)
			row.Useful, row.UsefulRate = &v.useful, &rate
			if rate > highest {
				highest, best = rate, v.positions
			}
		}
		rows = append(rows, row)
	}
	return rows, best
}

func newLimited(c change) limited {
	r := c.apply()
	n, unchanged := r.LargestBatch(latencyLimit), base.LargestBatch(latencyLimit)
	return limited{
		Change: c.name, LimitUs: us(latencyLimit.Seconds()),
		Largest: newPoint(r.Terms(n, n)), Next: newPoint(r.Terms(n+1, n+1)),
		AtBase: newPoint(r.Terms(unchanged, unchanged)), Limit: round(r.RateLimit(), 1),
	}
}

func newUnequal(batches ...int) unequal {
	var tally costmodel.Tally
	mean := 0.0
	for _, n := range batches {
		t := base.Terms(n, n)
		tally.Add(float64(n), t.Step)
		mean += t.TokenRate(float64(n)) / float64(len(batches))
	}
	return unequal{batches, round(tally.TokenRate(), 1), round(mean, 1)}
}

func us(seconds float64) float64 { return round(seconds*1e6, 3) }

// round drops digits that depend on the order of additions.
func round(x float64, digits int) float64 {
	scale := math.Pow10(digits)
	return math.Round(x*scale) / scale
}
