package workload_test

import (
	"context"
	"fmt"
	"os"
	"strings"

	"servesim/sim"
	"servesim/workload"
)

// A workload comes from a file, and a result can carry it.
func ExampleReadDocument() {
	const file = `{
		"servesim_workload": 1,
		"seed": 7,
		"sources": [
			{"name": "chat", "first": 2, "requests": {
				"kind": "open",
				"arrivals": {"kind": "gamma", "rate_per_s": 8, "cv": 2},
				"mix": [{"class": {"name": "chat"}, "lengths": {"kind": "azure_conv_2023"}}]}},
			{"name": "batch", "first": 1, "requests": {
				"kind": "open",
				"arrivals": {"kind": "constant", "rate_per_s": 1},
				"mix": [{"class": {"name": "batch", "priority": 1}, "lengths": {"kind": "tokens", "prompt_tokens": 500, "output_tokens": 10}}]}}
		]
	}`
	d, err := workload.ReadDocument(strings.NewReader(file), "workload.json")
	if err != nil {
		fmt.Println(err)
		return
	}
	for q, err := range d.Requests() {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%v %s: %d tokens, %d out\n", q.Arrival, d.Classes()[q.Class].Name, q.Prompt, q.Output)
	}
	d.Sources = d.Sources[1:]
	d.WriteTo(os.Stdout)
	// Output:
	// 0s batch: 500 tokens, 10 out
	// 413.391595ms chat: 3986 tokens, 36 out
	// 456.842107ms chat: 402 tokens, 88 out
	// {
	//   "servesim_workload": 1,
	//   "seed": 7,
	//   "sources": [
	//     {
	//       "name": "batch",
	//       "requests": {
	//         "kind": "open",
	//         "arrivals": {"kind": "constant", "rate_per_s": 1},
	//         "mix": [
	//           {
	//             "class": {"name": "batch", "priority": 1},
	//             "lengths": {"kind": "tokens", "prompt_tokens": 500, "output_tokens": 10}
	//           }
	//         ]
	//       },
	//       "first": 1
	//     }
	//   ]
	// }
}

// Clients that wait for answers need the run's FollowUp.
func ExampleDocument_Begin() {
	d := workload.Document{Seed: 1, Sources: []workload.Source{{
		Class:    sim.Class{Name: "loop"},
		Requests: workload.Clients{Concurrency: 2, Requests: 5, Lengths: workload.Tokens{Prompt: 100, Output: 4}},
	}}}
	r, err := d.Begin()
	if err != nil {
		fmt.Println(err)
		return
	}
	cfg := sim.Config{Classes: d.Classes(), Replicas: []sim.Replica{busyReplica()}, FollowUp: r.FollowUp}
	result, err := sim.Run(context.Background(), cfg, r.Requests())
	fmt.Println(result.Completed, "answers, error", err)
	// Output: 5 answers, error <nil>
}
