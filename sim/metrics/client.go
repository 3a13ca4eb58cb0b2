package metrics

import (
	"fmt"

	"servesim/sim"
)

// clientCell collects what the clients of one class see of completed requests.
type clientCell struct {
	ttft, gaps, tpot, latency distribution
	unknown                   int64 // first tokens
}

func newClientCell(streaming bool) *clientCell {
	return &clientCell{newDistribution(streaming), newDistribution(streaming), newDistribution(streaming), newDistribution(streaming), 0}
}

// atClient takes in a completed request as its client sees it, and returns that:
// a is the engine's view.
func (c *Collector) atClient(k *cell, e *sim.Event, a answer) answer {
	p := e.Path()
	if p != nil {
		// A retry takes the way of the first attempt.
		seen := e.Client()
		a.start, a.first, a.last = a.start.Add(-p.Before()), seen.First, seen.Last
	}
	at := k.client
	at.latency.add(float64(a.last-a.start), 1)
	if a.first == sim.NoTime {
		at.unknown++
	} else {
		at.ttft.add(float64(a.first-a.start), 1)
		if a.output > 1 {
			at.tpot.add(float64(a.last-a.first)/float64(a.output-1), 1)
		}
	}
	held := p != nil && (p.Proxy.Tokens > 1 || p.Proxy.Every > 0)
	if held {
		a.gapsOver = -1 // others than the engine's
	}
	if c.options.ClientGaps || held && c.options.Boundary == AtClient && k.class.Gap > 0 {
		a.gapsOver = c.clientGaps(k, e, p, a.gapsOver)
	}
	return a
}

// clientGaps takes in the gaps between tokens at the client, and returns how
// many are over the target of the class: over where they are not known.
func (c *Collector) clientGaps(k *cell, e *sim.Event, p *sim.Path, over int64) int64 {
	c.sampled = e.TokenTimes(c.sampled[:0])
	if len(c.sampled) == 0 {
		return over
	}
	c.delivered = p.Deliver(c.delivered[:0], c.sampled)
	over = 0
	for i, t := range c.delivered[1:] {
		gap := t.Sub(c.delivered[i])
		if c.options.ClientGaps {
			k.client.gaps.add(float64(gap), 1)
		}
		if gap > k.class.Gap {
			over++
		}
	}
	return over
}

// clientSamples are the latencies of a clientCell.
type clientSamples struct {
	samples
	unknown int64
}

func (k *clientCell) samples() clientSamples {
	return clientSamples{samples{k.ttft.sample(), k.gaps.sample(), k.tpot.sample(), k.latency.sample()}, k.unknown}
}

func (s clientSamples) join(o clientSamples) clientSamples {
	return clientSamples{s.samples.join(o.samples), s.unknown + o.unknown}
}

func (s clientSamples) describe(o Options) *Client {
	return &Client{s.ttft.summary(o), s.gaps.summary(o), s.tpot.summary(o), s.latency.summary(o), s.unknown}
}

// findings say what is not measured.
func (r *Client) findings(unjudged int64) (list []string) {
	if r.FirstUnknown > 0 {
		list = append(list, fmt.Sprintf("TTFT and TPOT at the client are not measured for %d completed requests: behind a proxy that counts tokens they take sim.Config.TokenTimes", r.FirstUnknown))
	}
	if unjudged > 0 {
		list = append(list, fmt.Sprintf("whether targets were met is not known of %d completed requests: behind a proxy it takes sim.Config.TokenTimes", unjudged))
	}
	return list
}
