//go:build go1.24

package workload_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"servesim/sim"
	"servesim/workload"
)

func BenchmarkArrivals(b *testing.B) {
	for _, p := range []struct {
		name     string
		arrivals workload.Arrivals
	}{
		{"constant", workload.Constant{Rate: 10}},
		{"poisson", workload.Poisson{Rate: 10}},
		{"gamma-0.005", workload.Gamma{Rate: 10, Shape: 0.005}},
		{"gamma-0.25", workload.Gamma{Rate: 10, Shape: 0.25}},
		{"gamma-4", workload.Gamma{Rate: 10, Shape: 4}},
		{"bursts", workload.Bursts{Size: 10, Every: time.Second}},
		{"mmpp-code", workload.AzureCode2023()},
		{"mmpp-conv", workload.AzureConv2023()},
		{"weibull-0.4", workload.Weibull{Rate: 10, Shape: 0.4}},
		{"log-normal", workload.LogNormalGaps{Rate: 10, CV: 3}},
		{"on-off", workload.OnOff{On: 40, MeanOn: time.Second, MeanOff: 3 * time.Second}},
		{"diurnal", workload.Varying{Rate: workload.Diurnal{Mean: 10, Swing: 0.5}}},
		{"superpose-100", superposed(100)},
		{"inference-perf-poisson", workload.InferencePerfPoisson{Rate: 10}},
		{"own", workload.Gaps(func(r *rand.Rand) float64 { return 0.1 * r.ExpFloat64() })},
		{"limit-scale-shift", workload.Limit{
			Arrivals: workload.Scale{Arrivals: workload.Shift{Arrivals: workload.Poisson{Rate: 10}, By: time.Second}, Factor: 2},
			Count:    1 << 60,
		}},
	} {
		b.Run(p.name, func(b *testing.B) {
			b.ReportAllocs()
			r := rand.New(workload.Stream(1, "bench", 0))
			for _, err := range p.arrivals.Times(r) {
				if err != nil {
					b.Fatal(err)
				}
				if !b.Loop() {
					break
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "arrivals/s")
		})
	}
}

// superposed is n bursty clients with skewed shares.
func superposed(n int) (s workload.Superpose) {
	for _, share := range workload.Shares(n, 2) {
		s = append(s, workload.Gamma{Rate: 100 * share, CV: 2})
	}
	return s
}

// Fits of the size of an hour of recording.
func BenchmarkFits(b *testing.B) {
	pairs, err := workload.DrawLengths(workload.AzureConv2023Lengths(), 20_000, 1)
	if err != nil {
		b.Fatal(err)
	}
	outputs := make([]int, len(pairs))
	for i, p := range pairs {
		outputs[i] = p.Output
	}
	requests := workload.Workload{Seed: 1, Arrivals: workload.Limit{Arrivals: workload.AzureConv2023(), Duration: time.Hour},
		Mix: []workload.Share{{Lengths: workload.Tokens{Prompt: 1, Output: 1}}}}.Requests()
	counts, err := workload.CountArrivals(requests, time.Second)
	if err != nil {
		b.Fatal(err)
	}
	o := workload.FitOptions{Starts: 1, Iterations: 100, Tolerance: 1e-300}
	for _, fit := range []struct {
		name string
		run  func() error
	}{
		{"mmpp-4", func() error { _, _, err := workload.FitMMPP(counts, time.Second, 4, o); return err }},
		{"log-normal-5", func() error { _, _, err := workload.FitLogNormalMixture(outputs, 5, workload.Limits{}, o); return err }},
		{"pairs-8", func() error {
			_, _, err := workload.FitMixture(pairs, 8, workload.Limits{}, workload.Limits{}, o)
			return err
		}},
	} {
		b.Run(fit.name, func(b *testing.B) {
			for b.Loop() {
				if err := fit.run(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(b.Elapsed().Seconds()*10/float64(b.N), "ms/iteration")
		})
	}
}

func BenchmarkRequests(b *testing.B) {
	for _, w := range []struct {
		name string
		mix  []workload.Share
	}{
		{"fixed", []workload.Share{{Lengths: workload.Tokens{Prompt: 512, Output: 128}}}},
		{"azure-code", []workload.Share{{Lengths: workload.AzureCode2023Lengths()}}},
		{"two-classes-hint", []workload.Share{
			{Weight: 9, Lengths: workload.AzureConv2023Lengths(), Hint: &workload.Hint{Sigma: 0.3}},
			{Weight: 1, Lengths: workload.AzureCode2023Lengths()},
		}},
	} {
		b.Run(w.name, func(b *testing.B) {
			b.ReportAllocs()
			for _, err := range (workload.Workload{Seed: 1, Arrivals: workload.AzureCode2023(), Mix: w.mix}).Requests() {
				if err != nil {
					b.Fatal(err)
				}
				if !b.Loop() {
					break
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
		})
	}
}

// azureRows is a file of n rows in the notation of 2023.
func azureRows(n int) []byte {
	var f bytes.Buffer
	f.WriteString("TIMESTAMP,ContextTokens,GeneratedTokens")
	at := time.Date(2023, 11, 16, 18, 15, 46, 680590000, time.UTC)
	for i := range n {
		at = at.Add(time.Duration(i%977) * 100 * time.Microsecond)
		fmt.Fprintf(&f, "\r\n%s,%d,%d", at.Format("2006-01-02 15:04:05.0000000"), 100+i%7000, 1+i%1000)
	}
	return f.Bytes()
}

func BenchmarkAzureCSV(b *testing.B) {
	const rows = 900_000
	plain := azureRows(rows)
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	z.Write(plain)
	z.Close()
	for _, in := range []struct {
		name string
		data []byte
		sort bool
	}{{"plain", plain, false}, {"gzip", zipped.Bytes(), false}, {"gzip-sort", zipped.Bytes(), true}} {
		b.Run(in.name, func(b *testing.B) {
			b.ReportAllocs()
			a := workload.AzureCSV{Path: in.name, Sort: in.sort, Open: func() (io.ReadCloser, error) {
				return io.NopCloser(bytes.NewReader(in.data)), nil
			}}
			for b.Loop() {
				for _, err := range a.Requests() {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(rows*b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

func BenchmarkMooncake(b *testing.B) {
	for _, m := range []workload.Mooncake{{}, {Spread: 3 * time.Second}, {Sort: true}} {
		m.Path = recorded(b, "conversation").Path
		b.Run(fmt.Sprintf("spread=%v/sort=%v", m.Spread, m.Sort), func(b *testing.B) {
			b.ReportAllocs()
			rows := 0
			for b.Loop() {
				for _, err := range m.Requests() {
					if err != nil {
						b.Fatal(err)
					}
					rows++
				}
			}
			b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// The conversation at its own rate through one replica with a prefix cache and
// unlimited memory.
func BenchmarkMooncakeReplay(b *testing.B) {
	requests, err := workload.Collect(recorded(b, "conversation").Requests())
	if err != nil {
		b.Fatal(err)
	}
	for _, blockTokens := range []int{512, 16} {
		b.Run(fmt.Sprintf("block=%d", blockTokens), func(b *testing.B) {
			var r sim.Result
			for b.Loop() {
				r = replay(b, workload.FromSlice(requests), blockTokens, 8192)
			}
			_, prompts := sequential(requests, blockTokens)
			b.ReportMetric(float64(len(requests)*b.N)/b.Elapsed().Seconds(), "requests/s")
			b.ReportMetric(float64(r.Steps)*float64(b.N)/b.Elapsed().Seconds(), "steps/s")
			b.ReportMetric(float64(r.PrefixHits)/float64(prompts), "hits/token")
		})
	}
}

func BenchmarkDescribe(b *testing.B) {
	requests, err := workload.Collect(workload.Workload{
		Seed:     1,
		Arrivals: workload.Limit{Arrivals: workload.AzureConv2023(), Count: 100_000},
		Mix:      []workload.Share{{Lengths: workload.AzureConv2023Lengths()}},
	}.Requests())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := workload.Describe(workload.FromSlice(requests)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(requests)*b.N)/b.Elapsed().Seconds(), "requests/s")
}

// BenchmarkRetry measures what a retry with jitter takes.
func BenchmarkRetry(b *testing.B) {
	r := workload.Retry{Seed: 1, Attempts: 4, Backoff: time.Second, Jitter: 0.25}
	c := sim.Completion{Kind: sim.Abort}
	b.ReportAllocs()
	for b.Loop() {
		c.Request.ID++
		r.FollowUp(c)
	}
}

// BenchmarkClientSide measures what a path and the order of arrival take, with
// some 15 requests on their way.
func BenchmarkClientSide(b *testing.B) {
	w := twoClasses(0)
	w.Arrivals = workload.Poisson{Rate: 200}
	b.ReportAllocs()
	for _, err := range apart().Requests(w.Requests()) {
		if err != nil {
			b.Fatal(err)
		}
		if !b.Loop() {
			break
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
}
