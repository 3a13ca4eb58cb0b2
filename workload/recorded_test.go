package workload_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"servesim/sim"
	"servesim/workload"
)

var idcWindows = []time.Duration{time.Second, 10 * time.Second, time.Minute}

// Runs of ten hours scatter around the closed form as their own standard
// errors say: those of 20 batches of half an hour, so that memory of minutes
// is in them. Over 20 seeds the deviations in standard errors have mean 0 and
// deviation 1. Describe measures the same, but for 1 s, the width of a slot: its
// windows begin with the first arrival and so straddle two slots.
func TestPresetsScatterAroundClosedForm(t *testing.T) {
	const seeds, hours, batches = 20, 10, 20
	const seconds = hours * 3600
	for name, m := range map[string]workload.MMPP{"code": workload.AzureCode2023(), "conv": workload.AzureConv2023()} {
		rate, err := m.Rate()
		if err != nil {
			t.Fatal(err)
		}
		var deviations, measured [3][]float64
		for seed := range uint64(seeds) {
			process := workload.Limit{Arrivals: m, Duration: hours * time.Hour}
			counts := make([]float64, seconds)
			for at, err := range process.Times(rand.New(workload.Stream(seed, "arrivals", 0))) {
				if err != nil {
					t.Fatal(err)
				}
				counts[at/sim.Time(time.Second)]++
			}
			var d workload.Description
			if seed < 6 {
				d = described(t, seed, process)
			}
			for i, window := range idcWindows {
				want, err := m.IDC(window)
				if err != nil {
					t.Fatal(err)
				}
				w := int(window / time.Second)
				mean, per := rate*float64(w), seconds/w/batches
				var idc [batches]float64
				for b := range idc {
					for k := range per {
						n := 0.0
						for _, c := range counts[(b*per+k)*w:][:w] {
							n += c
						}
						idc[b] += (n - mean) * (n - mean) / mean / float64(per)
					}
				}
				got, se := batchMean(idc[:])
				deviations[i] = append(deviations[i], (got-want)/se)
				if seed < 6 {
					measured[i] = append(measured[i], idcs(d)[i]/want)
				}
			}
		}
		for i, window := range idcWindows {
			what := fmt.Sprintf("%s, IDC(%v): ", name, window)
			mean, se := batchMean(deviations[i])
			within(t, what+"mean deviation in standard errors", mean, 0, 1/math.Sqrt(seeds), 4)
			within(t, what+"their deviation", se*math.Sqrt(seeds), 1, 1/math.Sqrt(2*(seeds-1)), 3.5)
			mean, se = batchMean(measured[i])
			tolerance := min(4*se, 0.1)
			if window == time.Second {
				tolerance = 0.06
			}
			near(t, what+"Describe over the closed form", mean, 1, tolerance)
		}
	}
}

func idcs(d workload.Description) [3]float64 {
	return [3]float64{float64(d.IDC1), float64(d.IDC10), float64(d.IDC60)}
}

// No law of independent gaps comes as near to the recordings as the presets
// do at all three widths, not the recorded gaps themselves; of as many
// arrivals, over seeds. The parameters are the maxima of the likelihood, and
// for one the recorded CV. SERVESIM_LONG=1 takes 100 seeds.
func TestIndependentGapsMissTheRecordings(t *testing.T) {
	resampled := func(name string) workload.Gaps {
		requests := collect(t, workload.AzureCSV{Path: shared(t, "recordings/AzureLLMInferenceTrace_"+name+".csv.gz")}.Requests())
		gaps := make([]float64, len(requests)-1)
		for i := range gaps {
			gaps[i] = requests[i+1].Arrival.Sub(requests[i].Arrival).Seconds()
		}
		return func(r *rand.Rand) float64 { return gaps[r.IntN(len(gaps))] }
	}
	gamma := func(shape, scale float64) workload.Arrivals {
		return workload.Gamma{Rate: 1 / (shape * scale), Shape: shape}
	}
	weibull := func(shape, scale float64) workload.Arrivals {
		return workload.Weibull{Rate: 1 / (scale * math.Gamma(1+1/shape)), Shape: shape}
	}
	for _, c := range []struct {
		recording string
		tolerance float64 // that the preset keeps
		models    map[string]workload.Arrivals
	}{
		{"code", 0.25, map[string]workload.Arrivals{
			"poisson":          workload.Poisson{Rate: 2.567},
			"gamma":            gamma(0.231, 1.685),
			"gamma of that CV": workload.Gamma{Rate: 2.567, CV: 13.15},
			"weibull":          weibull(0.419, 0.0631),
			"resampled":        resampled("code"),
		}},
		{"conv", 0.15, map[string]workload.Arrivals{
			"poisson":   workload.Poisson{Rate: 5.53},
			"gamma":     gamma(0.871, 0.2076),
			"weibull":   weibull(0.922, 0.1742),
			"resampled": resampled("conv"),
		}},
	} {
		seeds := 12
		if os.Getenv("SERVESIM_LONG") != "" {
			seeds = 100
		}
		recorded := describe(t, c.recording)
		for name, model := range c.models {
			var ratios [3][]float64
			for seed := range uint64(seeds) {
				d := described(t, seed, workload.Limit{Arrivals: model, Count: recorded.Requests})
				for i, idc := range idcs(d) {
					ratios[i] = append(ratios[i], idc/idcs(recorded)[i])
				}
			}
			worst := 0.0 // distance beyond the tolerance, in standard errors
			var means [3]float64
			for i := range ratios {
				mean, se := batchMean(ratios[i])
				means[i] = mean
				worst = max(worst, (math.Abs(mean-1)-c.tolerance)/se)
			}
			t.Logf("%s, %s: IDC over that recorded %.2f", c.recording, name, means)
			if worst < 2 {
				t.Errorf("%s, %s: IDC over that recorded %.3f, which is as near as the preset", c.recording, name, means)
			}
		}
	}
}
