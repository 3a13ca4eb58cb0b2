package workload_test

import (
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"os"
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
	fmt.Println(counts)
	// Output:
	// 0 0s 770 491 <nil>
	// 2 5.731s 120 35 <nil>
	// 3 rows: 2 requests, 1 dropped (1 with images)
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

// Files of six and of eight columns are told by the names of the columns.
// Failures have no response tokens.
func ExampleBurstGPT() {
	const file = `Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type
19440110.0,1722ac82,43,GPT-4,906,446,1352,Conversation log
19440110.0,d5983bf9,2,GPT-4,36,29,65,Conversation log
19440114.0,,7,ChatGPT,12,0,12,API log
`
	var counts workload.Counts
	recording := workload.BurstGPT{
		Path:   "example.csv",
		Open:   func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(file)), nil },
		Spread: time.Second, // the clock has seconds only
		Counts: &counts,
	}
	for q, err := range recording.Requests() {
		fmt.Println(q.ID, q.Arrival, q.Prompt, q.Output, err)
	}
	fmt.Println(counts)
	// Output:
	// 0 0s 906 446 <nil>
	// 1 500ms 36 29 <nil>
	// 3 rows: 2 requests, 1 dropped (1 without output tokens)
}

// A recording of another format becomes one of Mooncake's.
func ExampleMooncakeWriter() {
	const file = "num_prefill_tokens,num_decode_tokens,arrived_at\n700,12,0.5\n512,90,2.25\n"
	recording := workload.LengthCSV{
		Path: "example.csv",
		Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(file)), nil },
	}
	if err := (workload.MooncakeWriter{W: os.Stdout}).Write(recording.Requests()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// {"timestamp": 0, "input_length": 700, "output_length": 12, "hash_ids": [0, 1]}
	// {"timestamp": 1750, "input_length": 512, "output_length": 90, "hash_ids": [2]}
}

// A session in closed loop: who replays it sends a round when the answer before
// it has come and its tools are done. The second round begins with the prompt
// and answer of the first.
func ExampleTraceLab() {
	const file = `session_id,arrival_time,round_idx,prefix_len,input_len,output_len,tool_wait_after_ms
a,117,0,0,48,16,300
a,117,1,64,32,20,0
`
	recording := workload.TraceLab{
		Path: "example.csv",
		Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(file)), nil },
	}
	for session, err := range recording.Sessions() {
		if err != nil {
			fmt.Println(err)
			return
		}
		requests := session.Requests(16)
		for i, round := range session.Rounds {
			fmt.Println(requests[i].Prompt, requests[i].Output, len(requests[i].Prefix), "blocks, then", round.Wait)
		}
	}
	// Output:
	// 48 16 4 blocks, then 300ms
	// 96 20 7 blocks, then 0s
}

// What prompts share, if each is over before the next.
func ExampleDescribeSharing() {
	const file = `{"timestamp": 0, "input_length": 1024, "output_length": 40, "hash_ids": [0, 1]}
{"timestamp": 3000, "input_length": 1536, "output_length": 12, "hash_ids": [0, 1, 2]}
`
	recording := workload.Mooncake{
		Path: "example.jsonl",
		Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(file)), nil },
	}
	s, err := workload.DescribeSharing(recording.Requests(), 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.Blocks, "blocks,", s.Distinct, "distinct; found", s.TokenHits, "of tokens")
	// Output: 5 blocks, 3 distinct; found 0.4 of tokens
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
