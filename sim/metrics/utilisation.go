package metrics

import (
	"fmt"
	"time"

	"servesim/sim"
)

// Utilisation is a sim.Observer that relates what the steps of a run compute
// and move to what their GPUs could have: the shares of the arithmetic (MFU)
// and of the memory bandwidth (MBU). It asks the replicas' cost models to
// explain each step, changes nothing, and keeps sums only.
type Utilisation struct {
	// Each, if set, is called at the end of every step.
	Each func(StepWork)

	explainers []sim.Explainer
	peaks      []Peak
	work       []replicaWork
	end        sim.Time
	operators  []sim.Operator
}

// Peak is what one GPU could do at most.
type Peak struct {
	Rate      sim.FP8Rate // reference rate; > 0
	Bandwidth float64     // of the memory, in bytes per second; > 0
}

// StepWork is the work of one GPU in one step, in amounts.
type StepWork struct {
	Replica int
	Step    int64
	End     sim.Time
	Took    time.Duration
	Counted sim.FP8Ops
	Bytes   float64

	MFU, MBU float64
}

type replicaWork struct {
	steps   int64
	busy    int64 // ns
	counted sim.FP8Ops
	bytes   float64
}

// NewUtilisation returns an observer for one run of cfg. There is a peak for
// each replica, or one for all. The error names the replica whose cost model
// does not explain its steps.
func NewUtilisation(cfg sim.Config, peaks ...Peak) (*Utilisation, error) {
	n := len(cfg.Replicas)
	if len(peaks) != n && len(peaks) != 1 {
		return nil, fmt.Errorf("metrics: %d peaks for %d replicas", len(peaks), n)
	}
	u := &Utilisation{work: make([]replicaWork, n)}
	for i, r := range cfg.Replicas {
		e, ok := r.CostModel.(sim.Explainer)
		if !ok {
			return nil, fmt.Errorf("metrics: Replicas[%d].CostModel, a %T, does not explain its steps", i, r.CostModel)
		}
		p := peaks[min(i, len(peaks)-1)]
		if !(p.Rate > 0) || !(p.Bandwidth > 0) {
			return nil, fmt.Errorf("metrics: the peak of replica %d is %+v", i, p)
		}
		u.explainers, u.peaks = append(u.explainers, e), append(u.peaks, p)
	}
	return u, nil
}

// Observe implements sim.Observer.
func (u *Utilisation) Observe(e sim.Event) {
	u.end = max(u.end, e.Time)
	if e.Kind != sim.StepEnd {
		return
	}
	u.operators = u.explainers[e.Replica].Explain(*e.Batch, u.operators[:0])
	s := StepWork{Replica: int(e.Replica), Step: e.Step, End: e.Time, Took: e.Took}
	for i := range u.operators {
		s.Counted += u.operators[i].Counted
		s.Bytes += u.operators[i].Bytes
	}
	w := &u.work[e.Replica]
	w.steps++
	w.busy += int64(e.Took)
	w.counted += s.Counted
	w.bytes += s.Bytes
	if u.Each == nil {
		return
	}
	p := u.peaks[e.Replica]
	s.MFU = s.Counted.Utilisation(e.Took, p.Rate)
	s.MBU = s.Bytes / e.Took.Seconds() / p.Bandwidth
	u.Each(s)
}

// UtilisationReport is what a run made of its GPUs. Amounts are those of one
// GPU per replica, added up; shares are of its peak.
type UtilisationReport struct {
	Steps     int64  `json:"steps"`
	TeraOps   Number `json:"fp8_equivalent_tera_operations"`
	Gigabytes Number `json:"gigabytes_moved"`

	// While a step runs: amounts / time in steps.
	MFU Number `json:"mfu_in_steps"`
	MBU Number `json:"mbu_in_steps"`
	// Over the run, idle time included: amounts / (end of the run · replicas).
	MFUOfRun Number `json:"mfu_of_run"`
	MBUOfRun Number `json:"mbu_of_run"`
}

// Report sums up the steps so far. Shares of no time are NaN.
func (u *Utilisation) Report() UtilisationReport {
	var r UtilisationReport
	var counted sim.FP8Ops
	// What the GPUs could have done, in steps and in the whole run.
	var bytes, steps, stepBytes, run, runBytes float64
	for i, w := range u.work {
		r.Steps += w.steps
		counted += w.counted
		bytes += w.bytes
		busy, elapsed := time.Duration(w.busy).Seconds(), time.Duration(u.end).Seconds()
		steps += float64(busy * float64(u.peaks[i].Rate))
		stepBytes += float64(busy * u.peaks[i].Bandwidth)
		run += float64(elapsed * float64(u.peaks[i].Rate))
		runBytes += float64(elapsed * u.peaks[i].Bandwidth)
	}
	r.TeraOps, r.Gigabytes = Number(counted.Tera()), Number(bytes/1e9)
	r.MFU, r.MFUOfRun = Number(float64(counted)/steps), Number(float64(counted)/run)
	r.MBU, r.MBUOfRun = Number(bytes/stepBytes), Number(bytes/runBytes)
	return r
}
