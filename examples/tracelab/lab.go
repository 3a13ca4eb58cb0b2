package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"servesim/sim"
	"servesim/sim/profile"
	"servesim/sim/trace"
)

// request is what the lab knows of one request. Instants share one clock.
type request struct {
	ID      string
	Arrival sim.Time
	Start   sim.Time   // of the prompt
	End     sim.Time   // of the prompt
	Tokens  []sim.Time // at which each was delivered, in order
}

// Validate reports a request whose figures would mean nothing. Instants may be
// equal.
func (r *request) Validate() error {
	if len(r.Tokens) == 0 {
		return errors.New("no token was delivered")
	}
	names := [...]string{"arrival", "prompt start", "prompt end", "first token"}
	times := [...]sim.Time{r.Arrival, r.Start, r.End, r.Tokens[0]}
	for i := range times[1:] {
		if times[i+1] < times[i] {
			return fmt.Errorf("%s at %v ms is before %s at %v ms", names[i+1], inMillis(times[i+1]), names[i], inMillis(times[i]))
		}
	}
	for i := range r.Tokens[1:] {
		if r.Tokens[i+1] < r.Tokens[i] {
			return fmt.Errorf("token %d at %v ms is before token %d at %v ms", i+2, inMillis(r.Tokens[i+1]), i+1, inMillis(r.Tokens[i]))
		}
	}
	return nil
}

func inMillis(t sim.Time) float64 { return float64(t) / 1e6 }

func (r *request) last() sim.Time { return r.Tokens[len(r.Tokens)-1] }

// gaps are the times between tokens in ms: none for one token.
func (r *request) gaps() []float64 {
	gaps := []float64{}
	for i := range r.Tokens[1:] {
		gaps = append(gaps, float64(ms(r.Tokens[i+1].Sub(r.Tokens[i]))))
	}
	return gaps
}

func ms(d time.Duration) profile.Number { return profile.Number(float64(d) / 1e6) }

// row is a request in the table: Queue + Prompt + Publish = TTFT.
type row struct {
	ID        string         `json:"id"`
	ArrivalMs profile.Number `json:"arrival_ms"`
	QueueMs   profile.Number `json:"queue_ms"`   // to the prompt's start
	PromptMs  profile.Number `json:"prompt_ms"`  // to its end
	PublishMs profile.Number `json:"publish_ms"` // to the delivery of the first token
	TTFTMs    profile.Number `json:"ttft_ms"`
	GapsMs    []float64      `json:"gaps_ms"`
}

func (r *request) row() row {
	first := r.Tokens[0]
	return row{r.ID, profile.Number(inMillis(r.Arrival)), ms(r.Start.Sub(r.Arrival)), ms(r.End.Sub(r.Start)), ms(first.Sub(r.End)), ms(first.Sub(r.Arrival)), r.gaps()}
}

// table is the figures of a trace.
type table struct {
	Rows []row `json:"requests,omitempty"`
	// TTFT is of requests; Gaps pools every gap, so that long answers weigh
	// more; MeanGaps is of one mean a request, without those of one token.
	TTFT     summary `json:"ttft_ms"`
	Gaps     summary `json:"gaps_ms"`
	MeanGaps summary `json:"mean_gaps_ms"`
	Tokens   int     `json:"tokens"`
	// SpanMs is the time from the first arrival to the last delivery, and
	// TokensPerS all tokens over it: no steady rate of decoding, since it holds
	// every start and end.
	SpanMs     profile.Number `json:"span_ms"`
	TokensPerS profile.Number `json:"tokens_per_s"`
	// InSystem is the mean number of requests between arrival and last token.
	InSystem profile.Number `json:"mean_in_system"`
}

// summary is n values with percentiles by nearest rank.
type summary struct {
	N    int            `json:"n"`
	Mean profile.Number `json:"mean"`
	P50  profile.Number `json:"p50"`
	P95  profile.Number `json:"p95"`
}

func summarise(values []float64) summary {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	rank := func(q float64) profile.Number {
		return profile.Number(profile.Percentile(values, q, profile.NearestRank))
	}
	return summary{len(values), profile.Number(sum / float64(len(values))), rank(0.5), rank(0.95)}
}

// tabulate works the figures out. An error names the request.
func tabulate(requests []request) (table, error) {
	if len(requests) == 0 {
		return table{}, errors.New("no requests")
	}
	var t table
	var ttfts, pooled, means []float64
	first, last := requests[0].Arrival, requests[0].Arrival
	var inside time.Duration
	for i := range requests {
		r := &requests[i]
		if err := r.Validate(); err != nil {
			return table{}, fmt.Errorf("request %q: %w", r.ID, err)
		}
		x := r.row()
		t.Rows = append(t.Rows, x)
		t.Tokens += len(r.Tokens)
		ttfts = append(ttfts, float64(x.TTFTMs))
		pooled = append(pooled, x.GapsMs...)
		if n := len(r.Tokens) - 1; n > 0 {
			means = append(means, float64(ms(r.last().Sub(r.Tokens[0])))/float64(n))
		}
		first, last = min(first, r.Arrival), max(last, r.last())
		inside += r.last().Sub(r.Arrival)
	}
	t.TTFT, t.Gaps, t.MeanGaps = summarise(ttfts), summarise(pooled), summarise(means)
	t.SpanMs, t.TokensPerS, t.InSystem = ms(last.Sub(first)), profile.Number(math.NaN()), profile.Number(math.NaN())
	if last > first {
		t.TokensPerS = profile.Number(float64(t.Tokens) / last.Sub(first).Seconds())
		t.InSystem = profile.Number(float64(inside) / float64(last.Sub(first)))
	}
	return t, nil
}

// readTrace reads a trace whose lines hold the instant of every token at the
// client. A request arrives when its client sends it.
func readTrace(in trace.Reader) ([]request, error) {
	var requests []request
	for e, err := range in.Entries() {
		if err != nil {
			return nil, err
		}
		tokens := slices.Clone(e.Details.ClientTokens)
		if tokens == nil && e.OutputTokens == 1 {
			tokens = []sim.Time{e.FirstTokenClient}
		}
		if tokens == nil {
			return nil, fmt.Errorf("%s: request %q has no client_tokens_ms: gaps need the instant of every token", in.Name, e.RequestID)
		}
		requests = append(requests, request{e.RequestID, e.ClientSend, e.PrefillStart, e.PrefillEnd, tokens})
	}
	return requests, nil
}
