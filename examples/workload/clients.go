package main

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"servesim/workload"
)

// Clients is what client parameters add up to.
type Clients struct {
	Clients int     `json:"clients"`
	SpanS   float64 `json:"span_s"` // from the start of the first window to the end of the last
	WindowS float64 `json:"window_s"`
	// Rate is the requests per second of all clients, over windows.
	Rate workload.Summary `json:"rate_per_s"`
	// Top1, Top5 and Top10 are the shares of so many clients with the most
	// requests, For90 is the number of those that make 90 %.
	Top1  workload.Figure `json:"top_1_share"`
	Top5  workload.Figure `json:"top_5_share"`
	Top10 workload.Figure `json:"top_10_share"`
	For90 int             `json:"clients_for_90_percent"`
	Gini  workload.Figure `json:"gini"`
	// Active is the share of clients and windows with requests, Gamma the
	// share of those whose gaps are fitted by a gamma distribution.
	Active workload.Figure `json:"active_windows"`
	Gamma  workload.Figure `json:"gamma_windows"`
	// CV is that of the gaps, over active windows; CVByRate its mean weighted
	// by rate.
	CV       workload.Summary `json:"gap_cv"`
	CVByRate workload.Figure  `json:"gap_cv_by_rate"`
	// PeakToTrough is the rate of the busiest hour of the day over that of the
	// quietest.
	PeakToTrough workload.Figure `json:"peak_to_trough"`
}

// describeServeGen describes rates, lengths, or both.
func describeServeGen(ctx context.Context, o options, out *Output) error {
	rates, err := readClients(ctx, o.file)
	if err != nil && len(rates) > 0 || ctx.Err() != nil {
		return err
	}
	ratesErr := err
	if len(rates) > 0 {
		out.Clients = describeClients(rates)
	}
	if o.rates != "" {
		if rates, err = readClients(ctx, o.rates); err != nil {
			return err
		}
	}
	out.Fields, err = describeFields(ctx, o, rates)
	switch {
	case errors.Is(err, workload.ErrNoClients) && out.Clients != nil:
		err = nil
	case errors.Is(err, workload.ErrNoClients):
		err = ratesErr
	}
	if err != nil {
		return err
	}
	var conventions []string
	if out.Clients != nil {
		conventions = append(conventions, rateConvention)
	}
	if out.Fields != nil && rates == nil {
		conventions = append(conventions, equalConvention)
	} else if out.Fields != nil {
		conventions = append(conventions, weightConvention)
	}
	out.Conventions = strings.Join(conventions, " ")
	return nil
}

// readClients reads rates.
func readClients(ctx context.Context, file string) (clients []workload.ServeGenClient, err error) {
	for c, err := range (workload.ServeGen{Path: file}).Clients() {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return clients, err
		}
		clients = append(clients, c)
	}
	return clients, nil
}

// describeClients adds up the rates of clients. Windows that a client lacks
// have none.
func describeClients(clients []workload.ServeGenClient) *Clients {
	width := windowWidth(clients)
	windows := 0
	for _, c := range clients {
		windows = max(windows, int(c.Windows[len(c.Windows)-1].Start/width)+1)
	}
	total := make([]float64, windows)
	share := make([]float64, len(clients))
	var cvs []float64
	var active, gamma, sum, cvSum float64
	for i, c := range clients {
		for _, w := range c.Windows {
			total[w.Start/width] += w.Rate
			share[i] += w.Rate
			if w.Rate == 0 {
				continue
			}
			active++
			if w.Pattern == "Gamma" {
				gamma++
			}
			cvs = append(cvs, w.CV)
			cvSum += w.CV * w.Rate
			sum += w.Rate
		}
	}
	slices.Sort(share)
	slices.Reverse(share)
	top := func(n int) workload.Figure {
		s := 0.0
		for _, v := range share[:min(n, len(share))] {
			s += v
		}
		return workload.Figure(s / sum)
	}
	out := &Clients{
		Clients: len(clients), WindowS: width.Seconds(), SpanS: (time.Duration(windows) * width).Seconds(),
		Rate: workload.Summarise(total), Top1: top(1), Top5: top(5), Top10: top(10),
		Active: workload.Figure(active / float64(windows*len(clients))), Gamma: workload.Figure(gamma / active),
		CV: workload.Summarise(cvs), CVByRate: workload.Figure(cvSum / sum),
		PeakToTrough: peakToTrough(total, width), Gini: gini(share),
	}
	for out.For90 < len(share) && !(top(out.For90) >= 0.9) {
		out.For90++
	}
	return out
}

// windowWidth is the shortest time between two windows of a client, ten minutes
// if none has two.
func windowWidth(clients []workload.ServeGenClient) time.Duration {
	const none = time.Duration(math.MaxInt64)
	width := none
	for _, c := range clients {
		for i := 1; i < len(c.Windows); i++ {
			width = min(width, c.Windows[i].Start-c.Windows[i-1].Start)
		}
	}
	if width == none {
		return 10 * time.Minute
	}
	return width
}

// peakToTrough compares the hours of the day.
func peakToTrough(rates []float64, width time.Duration) workload.Figure {
	var sums, n [24]float64
	for i, r := range rates {
		hour := int(time.Duration(i)*width/time.Hour) % 24
		sums[hour] += r
		n[hour]++
	}
	low, high := math.Inf(1), 0.0
	for h := range sums {
		if n[h] == 0 {
			return workload.Figure(math.NaN())
		}
		low, high = min(low, sums[h]/n[h]), max(high, sums[h]/n[h])
	}
	return workload.Figure(high / low)
}

// gini is the Gini coefficient of shares in falling order.
func gini(falling []float64) workload.Figure {
	n := len(falling)
	sum, weighted := 0.0, 0.0
	for i, v := range falling {
		sum += v
		weighted += float64(n-i) * v // the rank from below
	}
	return workload.Figure(2*weighted/(float64(n)*sum) - float64(n+1)/float64(n))
}
