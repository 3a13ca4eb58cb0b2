package profile

import (
	"fmt"
	"slices"

	"gonum.org/v1/gonum/stat"

	"servesim/sim/trace"
)

// Delivery sets what the server sent against what the client received.
type Delivery struct {
	ServerTTFT Latency `json:"server_ttft_ms"` // queue_enter to first_token_server, on the engine's clock
	Path       Latency `json:"path_ms"`        // first_token_server to first_token_client

	// Requests carry the instants of every token at both ends and have a gap.
	Requests   int      `json:"requests"`
	ServerGaps GapShape `json:"server_gaps"`
	ClientGaps GapShape `json:"client_gaps"`
	// TokensPerEvent is how many tokens reach the client at a time.
	TokensPerEvent Number  `json:"tokens_per_event"`
	Verdict        Verdict `json:"verdict"`
	Reason         string  `json:"reason"`
}

// GapShape describes the gaps between tokens of the same request, pooled: long
// answers weigh more.
type GapShape struct {
	Ms Latency `json:"ms"`
	CV Number  `json:"cv"` // standard deviation over mean; 0 is a steady stream
	// Clustered is the share of gaps that are shorter than a tenth of the mean
	// gap of the request at the server: tokens that come together.
	Clustered Number `json:"clustered"`
}

// Verdict says where an uneven stream comes from.
type Verdict string

// The verdicts.
const (
	NotMeasured        Verdict = "not measured"        // no request carries the tokens of both ends
	Smooth             Verdict = "smooth"              // no clusters at either end
	EngineGroups       Verdict = "engine groups"       // tokens leave the server together
	TransportBuffering Verdict = "transport buffering" // they leave one by one and arrive together
	TransportJitter    Verdict = "transport jitter"    // they leave evenly and arrive unevenly, one by one
)

const (
	// clusterShare is the share of clustered gaps from which a stream is
	// clustered: one token in five comes with another.
	clusterShare = 0.2
	// unevenCV is the variation from which a stream is uneven, if it is also
	// twice that of the server.
	unevenCV = 0.5
)

// delivery collects the tokens of requests that carry them at both ends.
type delivery struct {
	requests                         int
	server, client                   []float64 // gaps, ms
	serverClustered, clientClustered int
}

func (d *delivery) add(e *trace.Entry) {
	s, c := e.Details.ServerTokens, e.Details.ClientTokens
	if len(s) < 2 || len(c) < 2 {
		return
	}
	d.requests++
	short := float64(s[len(s)-1]-s[0]) / 1e6 / float64(len(s)-1) / 10
	add := func(gap float64, to *[]float64, clustered *int) {
		*to = append(*to, gap)
		if gap < short {
			*clustered++
		}
	}
	for i := range s[1:] { // both have one instant a token
		add(float64(s[i+1]-s[i])/1e6, &d.server, &d.serverClustered)
		add(float64(c[i+1]-c[i])/1e6, &d.client, &d.clientClustered)
	}
}

func (d *delivery) report(p *Profiler, rows []*row) Delivery {
	r := Delivery{Requests: d.requests,
		ServerTTFT:     p.latency(rows, func(r *row) float64 { return r.span(queueEnter, firstTokenServer) }),
		Path:           p.latency(rows, func(r *row) float64 { return r.phase(trace.NetworkToFirst) }),
		ServerGaps:     p.shape(d.server, d.serverClustered),
		ClientGaps:     p.shape(d.client, d.clientClustered),
		TokensPerEvent: undefined()}
	if d.requests > 0 {
		tokens := len(d.client) + d.requests
		r.TokensPerEvent = over(float64(tokens), float64(tokens-d.clientClustered))
	}
	r.Verdict, r.Reason = r.judge()
	return r
}

func (p *Profiler) shape(gaps []float64, clustered int) GapShape {
	sorted := slices.Sorted(slices.Values(gaps))
	var sum total
	for _, g := range gaps {
		sum.add(g)
	}
	s := GapShape{Ms: p.summary(sorted, &sum), CV: undefined(), Clustered: over(float64(clustered), float64(len(gaps)))}
	if len(gaps) > 0 {
		mean, deviation := stat.PopMeanStdDev(gaps, nil)
		s.CV = over(deviation, mean)
	}
	return s
}

// judge names the verdict and the figures behind it.
func (d *Delivery) judge() (Verdict, string) {
	s, c := &d.ServerGaps, &d.ClientGaps
	switch {
	case d.Requests == 0:
		return NotMeasured, "no request carries the instants of its tokens at both ends"
	case s.Clustered >= clusterShare:
		return EngineGroups, fmt.Sprintf("%s of the server's gaps are shorter than a tenth of the mean: tokens leave it together", shareText(s.Clustered))
	case c.Clustered >= clusterShare:
		return TransportBuffering, fmt.Sprintf("tokens leave the server one by one, and %s of the client's gaps are shorter than a tenth of the server's mean: they arrive %s at a time",
			shareText(c.Clustered), d.TokensPerEvent)
	case c.CV >= unevenCV && c.CV >= 2*s.CV:
		return TransportJitter, fmt.Sprintf("gaps vary by %s of their mean at the client, by %s at the server", shareText(c.CV), shareText(s.CV))
	}
	return Smooth, "tokens arrive as they leave"
}
