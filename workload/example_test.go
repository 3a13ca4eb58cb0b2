package workload_test

import (
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"strings"
	"time"

	"servesim/sim"
	"servesim/workload"
)

// Bursts as in a coding assistant, short chats, and one document in ten. The
// sequence and the classes go to sim.Run.
func Example() {
	w := workload.Workload{
		Seed:     1,
		Arrivals: workload.Limit{Arrivals: workload.AzureCode2023(), Count: 5000},
		Mix: []workload.Share{
			{
				Class:   sim.Class{Name: "chat", TTFT: time.Second, Gap: 50 * time.Millisecond},
				Weight:  0.9,
				Lengths: workload.AzureConv2023Lengths(),
			},
			{
				Class:   sim.Class{Name: "document", Priority: 1, TTFT: 20 * time.Second},
				Weight:  0.1,
				Lengths: workload.Tokens{Prompt: 32_000, Output: 400},
			},
		},
	}
	d, err := workload.Describe(w.Requests())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d requests of %d classes, gap CV %.0f, p95 prompt %.0f\n", d.Requests, len(w.Classes()), d.GapCV, d.Prompt.P95)
	// Output: 5000 requests of 2 classes, gap CV 10, p95 prompt 32000
}

// The two arrival patterns of the same rate: one request every 100 ms, and ten
// at once every second.
func ExampleBursts() {
	for _, a := range []workload.Arrivals{workload.Constant{Rate: 10}, workload.Bursts{Size: 10, Every: time.Second}} {
		w := workload.Workload{
			Arrivals: workload.Limit{Arrivals: a, Duration: time.Minute},
			Mix:      []workload.Share{{Lengths: workload.Tokens{Prompt: 512, Output: 128}}},
		}
		requests, err := workload.Collect(w.Requests())
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(len(requests), requests[1].Arrival, requests[10].Arrival)
	}
	// Output:
	// 600 100ms 1s
	// 600 0s 1s
}

// ramp is a user's own arrival process: gaps shrink from a second to Floor.
type ramp struct{ Floor time.Duration }

func (p ramp) Times(*rand.Rand) iter.Seq2[sim.Time, error] {
	return func(yield func(sim.Time, error) bool) {
		t := sim.Time(0)
		for gap := time.Second; yield(t, nil); gap = max(gap/2, p.Floor) {
			t = t.Add(gap)
		}
	}
}

// A type with one method is an arrival process and combines with the others.
func ExampleArrivals() {
	a := workload.Limit{Arrivals: ramp{Floor: 200 * time.Millisecond}, Count: 5}
	for t, err := range a.Times(nil) {
		fmt.Println(t, err)
	}
	// Output:
	// 0s <nil>
	// 1s <nil>
	// 1.5s <nil>
	// 1.75s <nil>
	// 1.95s <nil>
}

// Independent gaps of any law are one function.
func ExampleGaps() {
	alternating := workload.Gaps(func(r *rand.Rand) float64 {
		if r.Float64() < 0.5 {
			return 0.001
		}
		return 0.999
	})
	n := 0
	for t, err := range alternating.Times(rand.New(workload.Stream(1, "arrivals", 0))) {
		if err != nil || t > sim.Time(time.Hour) {
			break
		}
		n++
	}
	fmt.Printf("%.1f requests per second\n", float64(n)/3600)
	// Output: 2.0 requests per second
}

// At one second the conversation recording looks like Poisson arrivals, at a
// minute it does not.
func ExampleMMPP_IDC() {
	for _, window := range []time.Duration{time.Second, 10 * time.Second, time.Minute} {
		idc, err := workload.AzureConv2023().IDC(window)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%v: %.2f\n", window, idc)
	}
	// Output:
	// 1s: 1.28
	// 10s: 3.77
	// 1m0s: 16.07
}

// A recording is replayed row by row; what cannot be simulated is counted.
func ExampleAzureCSV() {
	const file = "TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\n" +
		"2024-10-15T12:00:00.269Z,0,770,491\n" +
		"2024-10-15T12:00:05.819Z,1,949,126\n" +
		"2024-10-15T12:00:06.000Z,0,120,35\n"
	var counts workload.Counts
	recording := workload.AzureCSV{
		Path:   "example.csv",
		Open:   func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(file)), nil },
		Counts: &counts,
	}
	for q, err := range recording.Requests() {
		fmt.Println(q.ID, q.Arrival, q.Prompt, q.Output, err)
	}
	fmt.Printf("%+v\n", counts)
	// Output:
	// 0 0s 770 491 <nil>
	// 2 5.731s 120 35 <nil>
	// {Read:3 Emitted:2 ZeroPrompt:0 ZeroOutput:0 Images:1}
}

// Rows of one tick arrive together unless they are spread. The 64 tokens of the
// second prompt behind its second block have an id, but are not shared.
func ExampleMooncake() {
	const file = `{"timestamp": 3000, "input_length": 1024, "output_length": 40, "hash_ids": [0, 1]}
{"timestamp": 3000, "input_length": 1088, "output_length": 12, "hash_ids": [0, 2, 3]}
`
	recording := workload.Mooncake{
		Path:   "example.jsonl",
		Open:   func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(file)), nil },
		Spread: 3 * time.Second,
	}
	for q, err := range recording.Requests() {
		fmt.Println(q.ID, q.Arrival, q.Prompt, q.Output, len(q.Prefix), "blocks of", q.PrefixBlock, err)
	}
	// Output:
	// 0 0s 1024 40 2 blocks of 512 <nil>
	// 1 1.5s 1088 12 2 blocks of 512 <nil>
}

// Recorded lengths, pair by pair, under another arrival process.
func ExampleObserved() {
	recorded := workload.FromSlice([]sim.Request{{Prompt: 4096, Output: 32}, {Prompt: 32, Output: 4096}})
	lengths, err := workload.Observed(recorded)
	if err != nil {
		fmt.Println(err)
		return
	}
	w := workload.Workload{
		Arrivals: workload.Limit{Arrivals: workload.Poisson{Rate: 3}, Count: 1000},
		Mix:      []workload.Share{{Lengths: lengths}},
	}
	for q := range w.Requests() {
		if q.Prompt+q.Output != 4128 {
			fmt.Println("a pair was torn:", q)
		}
	}
	fmt.Println(len(lengths), "pairs")
	// Output: 2 pairs
}

// Ten times the recorded rate, the first 1000 requests of it.
func ExampleSpeed() {
	recorded := workload.FromSlice([]sim.Request{{Arrival: sim.Time(time.Second)}, {Arrival: sim.Time(5 * time.Second)}})
	for q := range workload.Take(workload.Speed(recorded, 10), 1000) {
		fmt.Println(q.Arrival)
	}
	// Output:
	// 100ms
	// 500ms
}

func ExampleDescribe() {
	w := workload.Workload{
		Arrivals: workload.Limit{Arrivals: workload.Bursts{Size: 30, Every: 10 * time.Second}, Duration: 3 * time.Hour},
		Mix:      []workload.Share{{Lengths: workload.Tokens{Prompt: 512, Output: 128}}},
	}
	d, err := workload.Describe(w.Requests())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("requests/s", d.Rate, "gap CV", d.GapCV, "IDC", d.IDC1, d.IDC10, d.IDC60, "rank correlation", d.Spearman)
	// Output: requests/s 3.003 gap CV 5.388 IDC 27 0 0 rank correlation –
}
