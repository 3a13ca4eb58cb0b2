package main

import (
	"fmt"
	"strings"

	"servesim/examples/internal/terminal"
	"servesim/workload"
)

// presets are the generated workloads: what they draw, and the multiple of their
// rate that is work for four GPUs.
var presets = []preset{
	{"azure-code-2023", 10, func() workload.Arrivals { return workload.AzureCode2023() }, func() workload.Lengths { return workload.AzureCode2023Lengths() }},
	{"azure-conv-2023", 5, func() workload.Arrivals { return workload.AzureConv2023() }, func() workload.Lengths { return workload.AzureConv2023Lengths() }},
	{"voice-agents", 1, func() workload.Arrivals { return workload.Poisson{Rate: 50} }, func() workload.Lengths {
		return workload.Independent{
			Prompt: workload.LogNormal{Median: 300, Sigma: 0.5, Min: 20, Max: 3000},
			Output: workload.LogNormal{Median: 200, Sigma: 0.6, Min: 5, Max: 1000},
		}
	}},
	{"document-questions", 1, func() workload.Arrivals { return workload.Gamma{Rate: 10, CV: 1.5} }, func() workload.Lengths {
		return workload.Independent{
			Prompt: workload.LogNormal{Median: 2500, Sigma: 0.6, Min: 50, Max: 12000},
			Output: workload.LogNormal{Median: 100, Sigma: 0.6, Min: 3, Max: 1000},
		}
	}},
}

type preset struct {
	name    string
	scale   float64
	arrive  func() workload.Arrivals
	lengths func() workload.Lengths
}

// lookupPreset returns the preset of that name, or nil.
func lookupPreset(name string) *preset {
	for i := range presets {
		if presets[i].name == name {
			return &presets[i]
		}
	}
	return nil
}

func presetNames() (names []string) {
	for _, p := range presets {
		names = append(names, p.name)
	}
	return names
}

// set is a workload with what serves it and what is asked of it. No topology wins
// everywhere: the sets were searched for, one for each of three that win. Where
// chunked loses, its chunk is the best of those tried, powers of two and, for
// documents, steps of 32. Pools have their best sizes too; where dynamic loses, it
// does whatever it starts with.
type set struct {
	name   string
	story  string
	change func(*Manifest) // of the defaults
}

var sets = []set{
	{"code", `Completions of code: long prompts and short answers, in bursts that ask more than four GPUs can do. chunked wins. Every GPU computes prompts, so that a burst is over soonest, and a chunk of 1024 tokens beside the decodes stays within the gap target. Prompts are nine tenths of the work, and a decode pool takes a quarter of the GPUs from them. continuous computes prompts as fast, but whole, and the decodes stop for longer than the gap target.`,
		func(*Manifest) {}},
	{"voice", `Voice agents: short prompts at a high rate, the first word at once, and then text faster than it can be spoken. continuous wins. A prompt computed alone has its token after one short step; beside all decodes, as chunked computes it, the step is four tenths longer, whatever the chunk. The gaps that whole prompts tear are not heard. With pools, the prompts of all GPUs meet in two, and their queue breaks the target; with three, the decodes lack memory.`,
		func(m *Manifest) {
			m.usePreset("voice-agents", 3000)
			m.Model, m.GPU, m.Link, m.MaxModelLen = "Qwen3-32B", "H200", "NVLink4", 4096
			m.TTFTTargetMs, m.GapTargetMs, m.ChunkTokens = 80, 200, 1024
		}},
	{"documents", `Questions about documents, answered at 63 tokens a second. disaggregated wins. A decode step takes most of the gap target: a chunk that fits beside it, of 128 tokens, uses less than half of the GPU, and prompts queue up. Whole prompts, as continuous computes them, stop the decodes, and more often than a p95 forgives. Apart, on two GPUs each, prompts run at full speed and decodes undisturbed. dynamic finds that by throughput three GPUs should compute prompts; the one that is left decodes all answers, but too slowly.`,
		func(m *Manifest) {
			m.usePreset("document-questions", 3000)
			m.Model, m.GPU, m.Link, m.FirstToken = "Qwen3-32B", "B200", "NVLink5", "decode"
			m.TTFTTargetMs, m.GapTargetMs, m.ChunkTokens = 1000, 15.75, 128
			m.PrefillReplicas = 2
		}},
}

func (m *Manifest) usePreset(name string, requests int) {
	m.Preset, m.RateScale, m.Requests = name, lookupPreset(name).scale, requests
}

// text is the story in 80 columns, and an empty line.
func (s set) text() string {
	var b strings.Builder
	terminal.Wrap(&b, s.name+": ", s.story)
	return b.String()
}

func setNames() string {
	var names []string
	for _, s := range sets {
		names = append(names, s.name)
	}
	return strings.Join(names, ", ")
}

// lookupSet returns the set of that name and its manifest.
func lookupSet(name string) (set, Manifest, error) {
	for _, s := range sets {
		if s.name == name {
			m := defaults()
			s.change(&m)
			return s, m, nil
		}
	}
	return set{}, Manifest{}, fmt.Errorf("workload: unknown %q; known are %s", name, setNames())
}
