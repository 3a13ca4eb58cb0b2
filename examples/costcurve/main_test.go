package main

import (
	"fmt"
	"strings"
	"testing"

	"servesim/costmodel"
	"servesim/examples/internal/commandtest"
)

var program = commandtest.WithoutContext(run)

// output runs the program.
func output(t *testing.T, args ...string) string {
	t.Helper()
	return commandtest.Output(t, program, args...)
}

func TestGolden(t *testing.T) {
	for name, args := range map[string][]string{
		"text":  nil,
		"json":  {"-json"},
		"large": {"-model", "llama-3.1-70b", "-gpu", "h200", "-tp", "2", "-context", "4000"},
	} {
		got := output(t, args...)
		commandtest.Golden(t, name, got)
	}
}

// The figures of the cost lab and its exercises, as printed there.
func TestPrintedFigures(t *testing.T) {
	text := output(t)
	commandtest.Columns(t, text)
	lines := map[string]bool{}
	for _, line := range strings.Split(text, "\n") {
		lines[strings.Join(strings.Fields(line), " ")] = true
	}
	for _, want := range []string{
		"1 41.0 2.0 61.0 16393 memory 0.488 48.8",
		"4 44.0 8.0 64.0 62500 memory 1.818 181.8",
		"8 48.0 16.0 68.0 117647 memory 3.333 333.3",
		"16 56.0 32.0 76.0 210526 memory 5.714 571.4",
		"32 72.0 64.0 92.0 347826 memory 8.889 888.9",
		"40 80.0 80.0 100.0 400000 memory 10.000 1000.0",
		"64 104.0 128.0 148.0 432432 compute 12.308 1000.0",
		"128 168.0 256.0 276.0 463768 compute 15.238 1000.0",
		"Crossover at R = N = 40, 10 op/B. No batch passes 500000 tokens/s.",
		"From R = 16 to 64: time ×1.947, rate ×2.054.",
		"rate ×2 16 76.0 76.0 210526 memory",
		"context bytes ×4 32 92.0 188.0 170213 memory",
		"overhead /2 4 64.0 54.0 74074 memory",
		"overhead /2 64 148.0 138.0 463768 compute",
		"operations /2 4 64.0 64.0 62500 memory",
		"operations /2 64 148.0 124.0 516129 memory",
		"overhead /2, operations /2 4 64.0 54.0 74074 memory",
		"overhead /2, operations /2 64 148.0 114.0 561404 memory",
		"16 56.0 32.0 76.0 memory – –",
		"28 56.0 56.0 76.0 memory – –",
		"29 56.0 58.0 78.0 compute – –",
		"96 56.0 192.0 212.0 compute – –",
		"32 56.0 64.0 84.0 compute 24 285714",
		"64 56.0 128.0 148.0 compute 28 189189",
		"28 positions are free. N = 32 has the best rate of useful tokens.",
		"as it is 65 150.0 433333 152.0 500000",
		"context bytes ×4 22 148.0 148649 152.0 250000",
		"Keeping R = 65 with context bytes ×4 would take 320 µs.",
	} {
		if !lines[want] {
			t.Errorf("missing line: %s", want)
		}
	}
	for _, want := range []string{"Steps of 16 and 128 in turn: 409091 tokens/s", "337147", "28621 KV blocks", "454 requests fit"} {
		if !strings.Contains(text, want) {
			t.Errorf("missing: %s", want)
		}
	}
}

// The JSON object carries the same figures, and a decode step is never below
// its floor.
func TestJSON(t *testing.T) {
	r := commandtest.Object[report](t, output(t, "-json"))
	got := fmt.Sprintln(r.Teaching.Claim, r.Teaching.Crossover, r.Teaching.Free, r.Teaching.BestUseful,
		r.Teaching.Limited[0].Largest.Requests, r.Teaching.Limited[1].Largest.Requests,
		r.Teaching.Decode[4].StepUs, r.Teaching.Unequal.Rate, r.Device.Params)
	if want := "prediction 40 28 32 65 22 92 409090.9 8030261248\n"; got != want {
		t.Errorf("figures %s, want %s", got, want)
	}
	first := r.Device.Batches[0]
	if first.FloorMs < 4.48 || first.FloorMs > 4.55 { // 15.0 GB of weights and 1001 tokens over 3.35 TB/s
		t.Errorf("floor of one request %v ms, want about 4.52", first.FloorMs)
	}
	experts := commandtest.Object[report](t, output(t, "-json", "-model", "Qwen3-30B-A3B", "-tp", "2"))
	for _, d := range []device{r.Device, experts.Device} {
		for _, p := range d.Batches {
			if p.StepMs <= p.FloorMs {
				t.Errorf("%s, batch %d: step %v ms, floor %v", d.Model, p.Batch, p.StepMs, p.FloorMs)
			}
			if sum := p.MatricesMs + p.AttentionMs + p.OtherMs + p.HostMs; sum < p.StepMs-0.001 || sum > p.StepMs+0.001 {
				t.Errorf("%s, batch %d: parts add up to %v ms, step %v", d.Model, p.Batch, sum, p.StepMs)
			}
		}
	}
}

func TestErrors(t *testing.T) {
	_, unknownModel := costmodel.LookupModel("gpt-5")
	_, unknownGPU := costmodel.LookupGPU("tpu")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-gpus", "H100"}, "flag provided but not defined: -gpus; flags are -context, -gpu, -json, -model, -tp"},
		{[]string{"H100"}, `unexpected argument "H100"`},
		{[]string{"-model", "gpt-5"}, unknownModel.Error()},
		{[]string{"-gpu", "tpu"}, unknownGPU.Error()},
		{[]string{"-context", "0"}, "-context is 0, want at least 1"},
		{[]string{"-tp", "0"}, "-tp is 0, want at least 1"},
		{[]string{"-tp", "3"}, "costmodel: Setup.TensorParallel 3 does not divide Model.Heads 32"},
	} {
		if err := commandtest.Failure(t, program, c.args...); err != c.want {
			t.Errorf("%v: %s, want %s", c.args, err, c.want)
		}
	}
	if help := commandtest.Help(t, program); !strings.Contains(help, "-context tokens") {
		t.Errorf("-h: %q", help)
	}
	err := commandtest.Failure(t, program, "-model", "Llama-3.1-70B")
	if !strings.Contains(err, "leaves -65.23 GB") || !strings.Contains(err, "-tp divides it") {
		t.Errorf("70B on one H100: %s", err)
	}
}
