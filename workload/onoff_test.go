package workload_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"servesim/workload"
)

// In closed form and against an MMPP whose slots are so short that its state
// changes at any time: the transition matrix of a slot is I + Q·slot.
func TestOnOffClosedForms(t *testing.T) {
	o := workload.OnOff{On: 9.88, Off: 0.011, MeanOn: 7600 * time.Millisecond, MeanOff: 21800 * time.Millisecond}
	near(t, "rate", o.Rate(), (9.88*7.6+0.011*21.8)/29.4, 1e-12)
	const slot = time.Millisecond
	leaveOn, leaveOff := slot.Seconds()/7.6, slot.Seconds()/21.8
	m := workload.MMPP{Rates: []float64{0.011, 9.88}, Transition: [][]float64{{1 - leaveOff, leaveOff}, {leaveOn, 1 - leaveOn}}, Slot: slot}
	for _, window := range []time.Duration{100 * time.Millisecond, time.Second, 20 * time.Second} {
		want, err := m.IDC(window)
		if err != nil {
			t.Fatal(err)
		}
		near(t, fmt.Sprintf("IDC(%v)", window), o.IDC(window), want, 1e-3)
	}
	// Over windows of no width arrivals are Poisson, over long ones 1 + 2v/(λθ).
	p, theta := 7.6/29.4, 1/7.6+1/21.8
	near(t, "IDC of nothing", o.IDC(1), 1, 1e-6)
	near(t, "IDC of a year", o.IDC(365*24*time.Hour), 1+2*p*(1-p)*(9.88-0.011)*(9.88-0.011)/(o.Rate()*theta), 1e-5)
}

func TestOnOffAgainstSimulation(t *testing.T) {
	const seconds, batches = 200_000, 40
	o := workload.OnOff{On: 8, Off: 0.5, MeanOn: 2 * time.Second, MeanOff: 6 * time.Second}
	counts := make([]float64, seconds)
	for _, at := range first(t, int(seconds*o.Rate()*1.2), 5, o) {
		if s := int(at.Seconds()); s < seconds {
			counts[s]++
		}
	}
	for _, w := range []int{1, 10} {
		mean := o.Rate() * float64(w)
		var idc, rate [batches]float64
		per := seconds / w / batches
		for b := range batches {
			for i := range per {
				n := 0.0
				for _, c := range counts[(b*per+i)*w:][:w] {
					n += c
				}
				idc[b] += (n - mean) * (n - mean) / mean / float64(per)
				rate[b] += n / float64(per*w)
			}
		}
		got, se := batchMean(idc[:])
		within(t, fmt.Sprintf("IDC(%d s)", w), got, o.IDC(time.Duration(w)*time.Second), se, 3.5)
		got, se = batchMean(rate[:])
		within(t, "rate", got, o.Rate(), se, 3.5)
	}
}

// The first state is drawn by the time spent in it: with silence in the other,
// the first arrival comes at once in a quarter of all runs.
func TestOnOffStartsStationary(t *testing.T) {
	const n = 4000
	o := workload.OnOff{On: 1e6, MeanOn: time.Second, MeanOff: 3 * time.Second}
	on := 0.0
	for seed := range uint64(n) {
		if first(t, 1, seed, o)[0] < ms {
			on++
		}
	}
	within(t, "runs that start on", on/n, 0.25, math.Sqrt(0.25*0.75/n), 4)
}

func TestInvalidOnOff(t *testing.T) {
	for _, c := range []struct {
		o    workload.OnOff
		want string
	}{
		{workload.OnOff{On: -1, MeanOn: 1, MeanOff: 1}, "OnOff.On is -1,"},
		{workload.OnOff{On: 1, Off: math.NaN(), MeanOn: 1, MeanOff: 1}, "OnOff.Off is NaN,"},
		{workload.OnOff{MeanOn: 1, MeanOff: 1}, "OnOff.On is 0 and Off is 0: 0 requests in a stay of each"},
		{workload.OnOff{On: 1e-3, MeanOn: 1e5, MeanOff: 1}, "1e-07 requests in a stay of each"},
		{workload.OnOff{On: 1, MeanOff: 1}, "OnOff.MeanOn is 0s,"},
		{workload.OnOff{On: 1, MeanOn: 1, MeanOff: -1}, "OnOff.MeanOff is -1ns,"},
	} {
		if n, err := failure(c.o); n != 0 || !strings.Contains(errText(err), c.want) {
			t.Errorf("%+v: %d arrivals, then %v, want error with %q", c.o, n, err, c.want)
		}
	}
}
