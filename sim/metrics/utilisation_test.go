package metrics_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/costmodel"
	"servesim/scheduler"
	"servesim/sim"
	"servesim/sim/metrics"
	"servesim/sim/simtest"
	"servesim/workload"
)

// explained is a cost model of fixed steps with so many operations and bytes a
// position.
type explained struct {
	step         time.Duration
	counted      sim.FP8Ops
	bytes, sends float64
}

func (e explained) StepTime(sim.Batch) time.Duration { return e.step }

func (e explained) Explain(b sim.Batch, dst []sim.Operator) []sim.Operator {
	n := b.Positions + b.PrefillTokens()
	return append(dst, sim.Operator{Name: "a", Counted: sim.FP8Ops(n) * e.counted / 2, Bytes: float64(n) * e.bytes},
		sim.Operator{Name: "b", Counted: sim.FP8Ops(n) * e.counted / 2, Sent: e.sends})
}

// Two steps of 5 and 10 ms in 20 ms: 0.5 and 1 tera-operations against 2000 a
// second, 5 and 10 GB against 4000 GB a second. What is sent is no memory
// traffic.
func TestUtilisation(t *testing.T) {
	cfg := sim.Config{Replicas: []sim.Replica{{CostModel: explained{counted: 0.25e12, bytes: 2.5e9, sends: 1e9}}}}
	u, err := metrics.NewUtilisation(cfg, metrics.Peak{Rate: 2000e12, Bandwidth: 4e12})
	if err != nil {
		t.Fatal(err)
	}
	if r := u.Report(); r.MFU.Defined() || r.MBUOfRun.Defined() {
		t.Errorf("shares of nothing: %+v", r)
	}
	var each []metrics.StepWork
	u.Each = func(w metrics.StepWork) { each = append(each, w) }
	for i, e := range []sim.Event{
		{Kind: sim.StepEnd, Time: ms(5), Took: 5 * time.Millisecond, Batch: &sim.Batch{Decodes: 2, Positions: 2}},
		{Kind: sim.StepEnd, Time: ms(20), Took: 10 * time.Millisecond, Batch: &sim.Batch{Decodes: 2, Positions: 2, Prefills: []sim.Chunk{{Tokens: 2}}}},
		{Kind: sim.End, Time: ms(20)},
	} {
		e.Step = int64(i + 1)
		u.Observe(e)
	}
	want := []metrics.StepWork{
		{Step: 1, End: ms(5), Took: 5 * time.Millisecond, Counted: 0.5e12, Bytes: 5e9, MFU: 0.05, MBU: 0.25},
		{Step: 2, End: ms(20), Took: 10 * time.Millisecond, Counted: 1e12, Bytes: 10e9, MFU: 0.05, MBU: 0.25},
	}
	if d := cmp.Diff(want, each, near); d != "" {
		t.Errorf("steps (-want +got):\n%s", d)
	}
	report := metrics.UtilisationReport{Steps: 2, TeraOps: 1.5, Gigabytes: 15, MFU: 0.05, MBU: 0.25, MFUOfRun: 0.0375, MBUOfRun: 0.1875}
	if d := cmp.Diff(report, u.Report(), near); d != "" {
		t.Errorf("run (-want +got):\n%s", d)
	}
}

// Two replicas with peaks of their own: 1 and 2 tera-operations in 10 ms each of
// a run of 20 ms, against 1000 and 3000 a second.
func TestUtilisationOfReplicas(t *testing.T) {
	r := sim.Replica{CostModel: explained{counted: 1e12, bytes: 1e9}}
	u, err := metrics.NewUtilisation(sim.Config{Replicas: []sim.Replica{r, r}}, metrics.Peak{Rate: 1000e12, Bandwidth: 1e12}, metrics.Peak{Rate: 3000e12, Bandwidth: 3e12})
	if err != nil {
		t.Fatal(err)
	}
	u.Observe(sim.Event{Kind: sim.StepEnd, Time: ms(10), Took: 10 * time.Millisecond, Batch: &sim.Batch{Decodes: 1, Positions: 1}})
	u.Observe(sim.Event{Kind: sim.StepEnd, Replica: 1, Time: ms(20), Took: 10 * time.Millisecond, Batch: &sim.Batch{Decodes: 2, Positions: 2}})
	want := metrics.UtilisationReport{Steps: 2, TeraOps: 3, Gigabytes: 3, MFU: 3.0 / 40, MBU: 3.0 / 40, MFUOfRun: 3.0 / 80, MBUOfRun: 3.0 / 80}
	if d := cmp.Diff(want, u.Report(), near); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestUtilisationErrors(t *testing.T) {
	good, peak := sim.Replica{CostModel: explained{}}, metrics.Peak{Rate: 1, Bandwidth: 1}
	for _, c := range []struct {
		replicas []sim.Replica
		peaks    []metrics.Peak
		want     string
	}{
		{[]sim.Replica{good, good, good}, []metrics.Peak{peak, peak}, "metrics: 2 peaks for 3 replicas"},
		{[]sim.Replica{good, {CostModel: sim.CostFunc(nil)}}, []metrics.Peak{peak}, "metrics: Replicas[1].CostModel, a sim.CostFunc, does not explain its steps"},
		{[]sim.Replica{good}, []metrics.Peak{{Rate: 1}}, "metrics: the peak of replica 0 is {Rate:1 Bandwidth:0}"},
		{[]sim.Replica{good}, []metrics.Peak{{Rate: sim.FP8Rate(math.NaN()), Bandwidth: 1}}, "metrics: the peak of replica 0 is {Rate:NaN Bandwidth:1}"},
	} {
		if _, err := metrics.NewUtilisation(sim.Config{Replicas: c.replicas}, c.peaks...); err == nil || err.Error() != c.want {
			t.Errorf("error %v, want %s", err, c.want)
		}
	}
}

// halved counts half of what its model counts.
type halved struct{ *costmodel.Transformer }

func (h halved) Explain(b sim.Batch, dst []sim.Operator) []sim.Operator {
	from := len(dst)
	dst = h.Transformer.Explain(b, dst)
	for i := range dst[from:] {
		dst[from+i].Counted /= 2
	}
	return dst
}

// The estimator on, off, or counting half: the events and the reported rate
// are the same.
func TestEstimatorChangesNothing(t *testing.T) {
	setup, err := costmodel.NewSetup("Llama-3.1-8B", "H100")
	if err != nil {
		t.Fatal(err)
	}
	model, err := costmodel.NewTransformer(setup)
	if err != nil {
		t.Fatal(err)
	}
	run := func(cost sim.CostModel, estimate bool) (lines []string, rate metrics.Number, mfu float64) {
		load := workload.Workload{
			Seed:     3,
			Arrivals: workload.Limit{Arrivals: workload.Gamma{Rate: 20, CV: 3}, Count: 100},
			Mix:      []workload.Share{{Lengths: workload.Tokens{Prompt: 700, Output: 50}}},
		}
		log := &simtest.Log{}
		cfg := sim.Config{Observers: []sim.Observer{log}}
		cfg.Replicas = []sim.Replica{{Scheduler: scheduler.ChunkedPrefill{}, CostModel: cost, KVBlocks: 4000, MaxBatchTokens: 1024}}
		var u *metrics.Utilisation
		if estimate {
			if u, err = metrics.NewUtilisation(cfg, metrics.Peak{Rate: setup.GPU.FP8Rate(), Bandwidth: setup.GPU.Bandwidth}); err != nil {
				t.Fatal(err)
			}
			cfg.Observers = append(cfg.Observers, u)
		}
		report, err := metrics.Run(context.Background(), cfg, metrics.Options{}, load.Requests())
		if err != nil {
			t.Fatal(err)
		}
		if estimate {
			mfu = float64(u.Report().MFU)
		}
		return log.Lines, report.TokenThroughput, mfu
	}
	off, offRate, _ := run(model, false)
	on, onRate, mfu := run(model, true)
	half, halfRate, halfMFU := run(halved{model}, true)
	if d := simtest.Diff(off, on); d != "" {
		t.Errorf("with the estimator:\n%s", d)
	}
	if d := simtest.Diff(off, half); d != "" {
		t.Errorf("with half of it:\n%s", d)
	}
	if offRate != onRate || offRate != halfRate {
		t.Errorf("rates %v without, %v with, %v with half of the estimator", offRate, onRate, halfRate)
	}
	if fmt.Sprintf("%.6f", mfu) != fmt.Sprintf("%.6f", 2*halfMFU) || mfu < 0.01 || mfu > 1 {
		t.Errorf("MFU %v, of half the operations %v", mfu, halfMFU)
	}
}

// A step costs no allocation.
func TestUtilisationAllocations(t *testing.T) {
	u, err := metrics.NewUtilisation(sim.Config{Replicas: []sim.Replica{{CostModel: explained{}}}}, metrics.Peak{Rate: 1, Bandwidth: 1})
	if err != nil {
		t.Fatal(err)
	}
	e := sim.Event{Kind: sim.StepEnd, Took: 1, Batch: &sim.Batch{Decodes: 1, Positions: 1}}
	u.Observe(e)
	if n := testing.AllocsPerRun(100, func() { u.Observe(e) }); n > 0 {
		t.Errorf("%v allocations a step", n)
	}
}
