package workload_test

import (
	"fmt"
	"math"
	"time"

	"servesim/sim"
	"servesim/workload"
)

// measured describes an arrival process.
func measured(a workload.Arrivals) workload.Description {
	w := workload.Workload{Seed: 1, Arrivals: a, Mix: []workload.Share{{Lengths: workload.Tokens{Prompt: 1, Output: 1}}}}
	d, err := workload.Describe(w.Requests())
	if err != nil {
		fmt.Println(err)
	}
	return d
}

// A day with its peak at 15 h, four times the trough: Poisson from minute to
// minute, bursty over hours.
func ExampleVarying() {
	d := measured(workload.Limit{
		Arrivals: workload.Varying{Rate: workload.Diurnal{Mean: 2, Swing: 0.6, Highest: 15 * time.Hour}},
		Duration: 24 * time.Hour,
	})
	fmt.Printf("%.1f requests per second, IDC %.1f at 1 s, %.0f at 60 s\n", d.Rate, d.IDC1, d.IDC60)
	// Output: 2.0 requests per second, IDC 1.4 at 1 s, 23 at 60 s
}

// A spike of a minute on a quiet load, by the hour.
func ExampleSteps() {
	spike := workload.Varying{Rate: workload.Steps{Repeat: true, Steps: []workload.Step{
		{Rate: 1, For: 59 * time.Minute},
		{Rate: 20, For: time.Minute},
	}}}
	fmt.Printf("%.2f requests per second\n", measured(workload.Limit{Arrivals: spike, Duration: 48 * time.Hour}).Rate)
	// Output: 1.32 requests per second
}

// A hundred clients with skewed shares and a gap CV of 2 each: together their
// gaps look nearly exponential, their counts do not.
func ExampleSuperpose() {
	var clients workload.Superpose
	for _, share := range workload.Shares(100, 0.7) {
		clients = append(clients, workload.Gamma{Rate: 20 * share, CV: 2})
	}
	d := measured(workload.Limit{Arrivals: clients, Duration: time.Hour})
	fmt.Printf("gap CV %.1f, IDC %.1f at 10 s\n", d.GapCV, d.IDC10)
	// Output: gap CV 1.3, IDC 3.3 at 10 s
}

// Tenants that come and go on their own.
func ExampleMerged() {
	m := workload.Merged{Seed: 1, Parts: []workload.Part{
		{Name: "assistant", Arrivals: workload.Limit{Arrivals: workload.AzureCode2023(), Duration: time.Hour},
			Mix: []workload.Share{{Class: sim.Class{Name: "code"}, Lengths: workload.AzureCode2023Lengths()}}},
		{Name: "batch", Arrivals: workload.Bursts{Size: 100, Every: 30 * time.Minute},
			Mix: []workload.Share{{Class: sim.Class{Name: "batch", Priority: 1}, Lengths: workload.Tokens{Prompt: 4000, Output: 100}}}},
	}}
	counts := map[string]int{}
	for q, err := range m.Requests() {
		if err != nil || q.Arrival > sim.Time(time.Hour) {
			break
		}
		counts[m.Classes()[q.Class].Name]++
	}
	fmt.Println(counts)
	// Output: map[batch:300 code:12135]
}

// A model of one's own recording, and how burstier than Poisson it is.
func ExampleFitMMPP() {
	recorded := workload.Workload{Seed: 1, Arrivals: workload.Limit{Arrivals: workload.AzureConv2023(), Duration: time.Hour},
		Mix: []workload.Share{{Lengths: workload.Tokens{Prompt: 1, Output: 1}}}}.Requests()
	counts, err := workload.CountArrivals(recorded, time.Second)
	if err != nil {
		fmt.Println(err)
		return
	}
	best := math.Inf(1)
	for states := 1; states <= 3; states++ {
		m, quality, err := workload.FitMMPP(counts, time.Second, states, workload.FitOptions{Starts: 2})
		if err != nil {
			fmt.Println(err)
			return
		}
		idc, err := m.IDC(time.Minute)
		fmt.Printf("%d states: IDC(60 s) %.1f, better %v, error %v\n", states, idc, quality.BIC < best, err)
		best = min(best, quality.BIC)
	}
	// Output:
	// 1 states: IDC(60 s) 1.0, better true, error <nil>
	// 2 states: IDC(60 s) 11.7, better true, error <nil>
	// 3 states: IDC(60 s) 15.0, better true, error <nil>
}

// Lengths fitted to a recording, measured against it, and cut into classes.
func ExampleFitMixture() {
	recorded, err := workload.DrawLengths(workload.AzureConv2023Lengths(), 5000, 7)
	if err != nil {
		fmt.Println(err)
		return
	}
	law, _, err := workload.FitMixture(recorded, 5, workload.Limits{}, workload.Limits{}, workload.FitOptions{Starts: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	drawn, err := workload.DrawLengths(law, 20_000, 8)
	if err != nil {
		fmt.Println(err)
		return
	}
	c, err := workload.CompareLengths(recorded, drawn)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("near:", c.PromptKS < 0.05 && c.OutputKS < 0.05)
	fmt.Printf("dependence: %.1f of %.1f\n", c.Generated.Eta2, c.Recorded.Eta2)
	fmt.Println("classes:", len(law.Shares()))
	// Output:
	// near: true
	// dependence: 0.6 of 0.6
	// classes: 5
}

// A recording that was cut at 500 tokens, and the law behind it.
func ExampleFitLogNormalMixture() {
	var recorded []int
	r := random(1)
	for range 5000 {
		recorded = append(recorded, workload.LogNormal{Median: 300, Sigma: 0.8, Max: 500}.Draw(r))
	}
	for _, limits := range []workload.Limits{{}, {Censored: 500}} {
		law, _, err := workload.FitLogNormalMixture(recorded, 1, limits, workload.FitOptions{Starts: 1})
		fmt.Printf("median %.0f, sigma %.2f, error %v\n", law.Medians[0], law.Sigmas[0], err)
	}
	// Output:
	// median 264, sigma 0.63, error <nil>
	// median 301, sigma 0.81, error <nil>
}

// "Burstiness" 0.1 says a gap CV of 3.2; a run of 100 requests has less,
// and ends on time.
func ExampleVLLMBench() {
	v := workload.VLLMBench{Requests: 100, Rate: 10, Burstiness: 0.1}
	var last sim.Time
	for t := range v.Times(random(1)) {
		last = t
	}
	fmt.Printf("gap CV %.1f, last request at %v\n", measured(v).GapCV, last)
	// Output: gap CV 3.0, last request at 10s
}
