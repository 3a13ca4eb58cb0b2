package metrics

import (
	"math"
	"slices"
	"strings"

	"servesim/sim"
)

// Report describes what has been observed so far: after sim.End, the run.
func (c *Collector) Report() Report {
	r := Report{Percentiles: c.options.Percentiles.String(), Mode: "exact", GapRule: c.options.Gap.String(), Boundary: c.options.Boundary.String(),
		Steps: c.steps.n, Tokens: c.steps.tokens,
		SimulatedS:  Number(c.now.Seconds()),
		WindowFromS: Number(min(c.window.from, c.now).Seconds()),
		WindowToS:   Number(min(c.window.to, c.now).Seconds())}
	if c.options.Streaming {
		r.Mode = "streaming, 3 significant digits"
	}
	var total tally
	var all samples
	var seen clientSamples
	var targets bool
	for i := range c.cells {
		k := &c.cells[i]
		if unknown := i+1 == len(c.cells); unknown && k.tally.arrived == 0 {
			break
		}
		each := k.samples()
		r.Classes = append(r.Classes, c.describe(k.class.Name, k.tally, each, stated(k.class)))
		if k.client != nil {
			at := k.client.samples()
			r.Classes[i].Client = at.describe(c.options)
			seen = seen.join(at)
		}
		total.add(k.tally)
		all = all.join(each)
		targets = targets || stated(k.class)
	}
	r.Cell = c.describe("", total, all, targets)
	if c.options.Client {
		r.Client = seen.describe(c.options)
		r.Findings = append(r.Findings, r.Client.findings(total.unjudged)...)
	}
	r.Load, r.Little = c.load(r.Unfinished)
	if r.Little.Finding != "" {
		r.Findings = append(r.Findings, r.Little.Finding)
	}
	if r.Unfinished < 0 {
		r.Findings = append(r.Findings, "more requests ended than arrived: observations are lost")
	}
	return r
}

// samples are the latencies of a cell.
type samples struct{ ttft, gaps, tpot, latency sample }

func (k *cell) samples() samples {
	return samples{k.ttft.sample(), k.gaps.sample(), k.tpot.sample(), k.latency.sample()}
}

func (s samples) join(o samples) samples {
	return samples{s.ttft.join(o.ttft), s.gaps.join(o.gaps), s.tpot.join(o.tpot), s.latency.join(o.latency)}
}

// describe fills the part of the report about one class, or all.
func (c *Collector) describe(name string, t tally, s samples, targets bool) Cell {
	span := math.NaN() // s; without a completion there is none
	if c.lastCompletion != sim.NoTime && c.firstArrival != sim.NoTime {
		span = (c.lastCompletion - c.firstArrival).Seconds()
	}
	d := Cell{Class: name, Arrived: t.arrived, Completed: t.completed, Rejected: t.rejected, Aborted: t.aborted,
		Unfinished:  t.arrived + t.retries - t.completed - t.rejected - t.aborted,
		Rejections:  slices.Clone(t.reasons),
		Preemptions: t.preemptions, OneToken: t.oneToken, Met: t.met,
		Attempts: t.arrived + t.retries, AbortedPrompt: t.abortedPrompt, AbortedOutput: t.abortedOutput,
		Deferrals: t.door.deferrals(),
		TTFT:      s.ttft.summary(c.options), ITL: s.gaps.summary(c.options),
		TPOT: s.tpot.summary(c.options), E2E: s.latency.summary(c.options),
		TokenThroughput:   over(float64(t.tokens), span),
		RequestThroughput: over(float64(t.completed), span),
		Goodput:           Number(math.NaN()),
		Attainment:        Number(math.NaN()),
		AttemptRate:       over(float64(t.arrived+t.retries), span)}
	d.Failed = d.Arrived - d.Completed - d.Unfinished
	slices.SortFunc(d.Rejections, func(a, b Rejections) int { return strings.Compare(a.Reason, b.Reason) })
	if targets && t.unjudged == 0 {
		d.Goodput = over(float64(t.met), span)
		d.Attainment = over(float64(t.met), float64(t.arrived))
	}
	return d
}

// load closes the integrals at the last event, on copies: more may follow.
func (c *Collector) load(unfinished int64) (Load, Little) {
	w := float64(c.window.overlap(0, c.now)) // ns
	mean := func(l level) (Number, int64) {
		l.extend(c.now, c.window)
		return over(l.area.float(), w), l.peak
	}
	var o Load
	o.DoorMean, o.DoorPeak = mean(c.atDoor)
	o.QueueMean, o.QueuePeak = mean(c.waiting)
	o.InSystemMean, o.InSystemPeak = mean(c.inSystem)
	o.RunningMean, o.RunningPeak = mean(c.running)

	s := &c.steps
	o.BatchMean = over(s.batch.float(), float64(s.busy))
	o.BatchPerStep = over(float64(s.sequences), float64(s.n))
	o.BatchPeak = s.largest
	o.Busy = over(float64(s.busy), w*float64(len(c.replicas)))
	o.KVMean, o.KVPeak = c.occupancy(w)

	tolerance := openTolerance
	if c.window.from == 0 && c.window.to == sim.Never && unfinished == 0 {
		tolerance = closedTolerance
	}
	lambda := over(float64(c.departures), w/1e9)
	sojourn := over(c.sojourns.float()/1e9, float64(c.departures))
	return o, CheckLittle(float64(o.InSystemMean), float64(lambda), float64(sojourn), tolerance)
}

// occupancy returns mean and peak KV occupancy over a window of w ns.
func (c *Collector) occupancy(w float64) (mean, peak Number) {
	var usable int64
	peak = Number(math.NaN())
	for _, r := range c.replicas {
		if r.usable > 0 {
			usable += r.usable
			if p := over(float64(r.peak), float64(r.usable)); !(p <= peak) {
				peak = p
			}
		}
	}
	return over(c.steps.kv.float(), w*float64(usable)), peak
}
