package workload_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/sim"
	"servesim/workload"
)

const millisecond = time.Millisecond

// runWorkflows returns what became of the workflows, and how often a call ended.
func runWorkflows(t *testing.T, w workload.Workflow, r sim.Replica) (results []workload.WorkflowResult, res sim.Result) {
	t.Helper()
	w.Done = func(x workload.WorkflowResult) { results = append(results, x) }
	run, err := w.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if res, err = sim.Run(context.Background(), sim.Config{Replicas: []sim.Replica{r}, FollowUp: run.FollowUp}, run.Requests()); err != nil {
		t.Fatal(err)
	}
	return results, res
}

func tool(d time.Duration, after ...int) workload.Node {
	return workload.Node{Tool: workload.After(d * millisecond), After: after}
}

// Two retrievals in parallel and a join: the shorter has slack. One after the
// other they add up.
func TestWorkflowJoinsWaitForTheSlowest(t *testing.T) {
	call := workload.Node{Lengths: workload.Tokens{Prompt: 100, Output: 1}} // 2 ms
	for _, tt := range []struct {
		name  string
		nodes []workload.Node
		want  time.Duration
		slack []time.Duration
	}{
		{"parallel", []workload.Node{tool(430), tool(280), {Lengths: call.Lengths, After: []int{0, 1}}}, 432, []time.Duration{0, 150, 0}},
		{"one after the other", []workload.Node{tool(430), tool(280, 0), {Lengths: call.Lengths, After: []int{1}}}, 712, []time.Duration{0, 0, 0}},
		{"beside a call", []workload.Node{tool(430), call, tool(1, 1), {Tool: workload.After(0), After: []int{0, 2}}}, 430, []time.Duration{0, 427, 427, 0}},
	} {
		got, _ := runWorkflows(t, workload.Workflow{Starts: workload.Limit{Arrivals: workload.Constant{Rate: 1}, Count: 3}, Nodes: tt.nodes}, busyReplica())
		for _, f := range got {
			var slack []time.Duration
			for _, n := range f.Nodes {
				slack = append(slack, n.Slack/millisecond)
			}
			if d := f.End.Sub(f.Start); d != tt.want*millisecond || cmp.Diff(tt.slack, slack) != "" {
				t.Errorf("%s: workflow %d took %v, want %v ms; slack %v ms, want %v", tt.name, f.Number, d, tt.want, slack, tt.slack)
			}
		}
		if len(got) != 3 {
			t.Errorf("%s: %d workflows ended", tt.name, len(got))
		}
	}
}

// On a busy engine the end of a workflow is the sum of its critical path to the
// nanosecond, and every node begins when the last that it waits for is done.
func TestWorkflowCriticalPath(t *testing.T) {
	draw := workload.Independent{Prompt: workload.LogNormal{Median: 200, Sigma: 1, Max: 3000}, Output: workload.LogNormal{Median: 30, Sigma: 1, Max: 300}}
	w := workload.Workflow{Seed: 3, Starts: workload.Limit{Arrivals: workload.Poisson{Rate: 15}, Count: 300}, Nodes: []workload.Node{
		{Lengths: draw},
		{Tool: workload.LogNormalDelay{Median: 50 * millisecond, Sigma: 1}, After: []int{0}, Fail: 0.2, Retries: 5},
		{Lengths: draw, After: []int{0}, Skip: 0.3},
		{Lengths: draw, After: []int{1, 2}},
		{Tool: workload.After(5 * millisecond)},
		{Lengths: draw, After: []int{3, 4}},
	}, Path: &sim.Path{NetworkIn: 3 * millisecond, NetworkOut: 4 * millisecond}}
	got, res := runWorkflows(t, w, busyReplica())
	skipped, retried := 0, 0
	for _, f := range got {
		if f.Failed {
			continue
		}
		sum := time.Duration(0)
		for i, n := range f.Nodes {
			ready := f.Start
			for _, a := range w.Nodes[i].After {
				ready = max(ready, f.Nodes[a].Done)
			}
			if n.Ready != ready || n.Slack < 0 || n.Critical && n.Slack != 0 {
				t.Fatalf("workflow %d node %d: %+v, ready %v", f.Number, i, n, ready)
			}
			if n.Critical {
				sum += n.Done.Sub(n.Ready)
			}
			skipped += btoi(n.Attempts == 0)
			retried += btoi(n.Attempts > 1)
		}
		if sum != f.End.Sub(f.Start) {
			t.Fatalf("workflow %d took %v, its critical path %v", f.Number, f.End.Sub(f.Start), sum)
		}
	}
	if len(got) != 300 || skipped == 0 || retried == 0 || res.Completed < 900 {
		t.Errorf("%d workflows, %d nodes skipped, %d tried again, %+v", len(got), skipped, retried, res)
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// A call that is given up is tried again, and the workflow fails with its last
// attempt.
func TestWorkflowFails(t *testing.T) {
	w := workload.Workflow{Starts: workload.Limit{Arrivals: workload.Constant{Rate: 1}, Count: 2}, Nodes: []workload.Node{
		{Lengths: workload.Tokens{Prompt: 10, Output: 500}, Retries: 2, Patience: sim.Patience{Total: 50 * millisecond}},
		tool(1, 0),
	}}
	got, res := runWorkflows(t, w, busyReplica())
	for _, f := range got {
		if !f.Failed || f.End.Sub(f.Start) != 150*millisecond || f.Nodes[0].Attempts != 3 || f.Nodes[1].Done != sim.NoTime {
			t.Errorf("%+v", f)
		}
	}
	if len(got) != 2 || res.Aborted != 6 {
		t.Errorf("%d workflows, %+v", len(got), res)
	}
}

func TestWorkflowErrors(t *testing.T) {
	good := workload.Workflow{Starts: workload.Constant{Rate: 1}, Nodes: []workload.Node{tool(1), tool(1, 0)}}
	for _, tt := range []struct {
		want   string
		change func(w *workload.Workflow)
	}{
		{"Workflow.Starts is nil", func(w *workload.Workflow) { w.Starts = nil }},
		{"Workflow.Nodes are 0, want from 1 to 256", func(w *workload.Workflow) { w.Nodes = nil }},
		{"Workflow.Nodes[1].After names node 1, want one before it", func(w *workload.Workflow) { w.Nodes[1].After = []int{1} }},
		{"Workflow.Nodes[0] has both or neither of Lengths and Tool", func(w *workload.Workflow) { w.Nodes[0].Tool = nil }},
		{"Workflow.Nodes[0].Skip is 2, want a probability", func(w *workload.Workflow) { w.Nodes[0].Skip = 2 }},
		{"Workflow.Nodes[0].Retries is 256, want from 0 to 255", func(w *workload.Workflow) { w.Nodes[0].Retries = 256 }},
	} {
		w := good
		w.Nodes = []workload.Node{tool(1), tool(1, 0)}
		tt.change(&w)
		if _, err := w.Begin(); fmt.Sprint(err) != "workload: "+tt.want {
			t.Errorf("error %v, want %s", err, tt.want)
		}
	}
}

func ExampleWorkflow() {
	w := workload.Workflow{
		Starts: workload.Limit{Arrivals: workload.Constant{Rate: 1}, Count: 1},
		Nodes: []workload.Node{
			{Name: "plan", Lengths: workload.Tokens{Prompt: 300, Output: 20}},
			{Name: "search", Tool: workload.After(430 * time.Millisecond), After: []int{0}},
			{Name: "calendar", Tool: workload.After(280 * time.Millisecond), After: []int{0}},
			{Name: "answer", Lengths: workload.Tokens{Prompt: 900, Output: 50}, After: []int{1, 2}},
		},
	}
	w.Done = func(f workload.WorkflowResult) {
		for i, n := range f.Nodes {
			fmt.Printf("%-8s %4d ms, slack %3d ms, critical %v\n", w.Nodes[i].Name, n.Done.Sub(n.Ready).Milliseconds(), n.Slack.Milliseconds(), n.Critical)
		}
		fmt.Printf("in all   %4d ms\n", f.End.Sub(f.Start).Milliseconds())
	}
	run, err := w.Begin()
	if err != nil {
		fmt.Println(err)
		return
	}
	cfg := sim.Config{Replicas: []sim.Replica{busyReplica()}, FollowUp: run.FollowUp}
	if _, err := sim.Run(context.Background(), cfg, run.Requests()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// plan       23 ms, slack   0 ms, critical true
	// search    430 ms, slack   0 ms, critical true
	// calendar  280 ms, slack 150 ms, critical false
	// answer     60 ms, slack   0 ms, critical true
	// in all    513 ms
}
