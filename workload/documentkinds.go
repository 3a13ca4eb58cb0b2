package workload

import (
	"reflect"
	"strings"

	"servesim/sim"
)

// documentKind is one kind of value that a document can have, besides the
// fields of its type.
type documentKind struct {
	name string
	// value has the type, and what fields that a document leaves out have.
	value any
	// field is the name of the one field of a type that is no struct.
	field string
	// preset makes the value, which then has no fields.
	preset func() any
}

// isClientPath tells the type that has presets, and so kinds, without being an
// interface.
func isClientPath(t reflect.Type) bool { return t == reflect.TypeFor[ClientPath]() }

// kindsOf returns the kinds of an interface, or of a ClientPath. Of kinds of one type the first is
// written.
func kindsOf(t reflect.Type) []documentKind {
	switch t {
	case reflect.TypeFor[Arrivals]():
		return arrivalKinds
	case reflect.TypeFor[RateFunction]():
		return rateKinds
	case reflect.TypeFor[Lengths]():
		return lengthsKinds
	case reflect.TypeFor[Length]():
		return lengthKinds
	case reflect.TypeFor[Delay]():
		return delayKinds
	case reflect.TypeFor[Preamble]():
		return preambleKinds
	case reflect.TypeFor[ClientPath]():
		return pathKinds
	case reflect.TypeFor[Requester]():
		return requesterKinds
	}
	panic("workload: a document cannot have " + t.String())
}

// What a document can say. A kind more is a line here, with doc tags in its
// type.
var (
	requesterKinds = []documentKind{
		{name: "open", value: Workload{}},
		{name: "sessions", value: Sessions{}},
		{name: "clients", value: Clients{}},
		{name: "workflow", value: Workflow{}},
		{name: "azure", value: AzureCSV{}},
		{name: "burstgpt", value: BurstGPT{}},
		{name: "mooncake", value: Mooncake{}},
		{name: "qwen_bailian", value: QwenBailian("")},
		{name: "vllm_timed_trace", value: VLLMTimedTrace("")},
		{name: "ragpulse", value: RAGPulse{}},
		{name: "tracelab", value: TraceLabReplay{}},
		{name: "tracelab_open_loop", value: TraceLabOpenLoop{}},
		{name: "length_file", value: LengthCSV{}},
		{name: "trace", value: TraceFile{}},
	}
	arrivalKinds = []documentKind{
		{name: "constant", value: Constant{}},
		{name: "poisson", value: Poisson{}},
		{name: "gamma", value: Gamma{}},
		{name: "weibull", value: Weibull{}},
		{name: "log_normal_gaps", value: LogNormalGaps{}},
		{name: "bursts", value: Bursts{}},
		{name: "on_off", value: OnOff{}},
		{name: "mmpp", value: MMPP{}},
		{name: "azure_code_2023", preset: func() any { return AzureCode2023() }},
		{name: "azure_conv_2023", preset: func() any { return AzureConv2023() }},
		{name: "varying", value: Varying{}},
		{name: "superpose", value: Superpose(nil), field: "clients"},
		{name: "limit", value: Limit{}},
		{name: "scale", value: Scale{}},
		{name: "shift", value: Shift{}},
		{name: "recorded", value: &RecordedArrivals{}},
		{name: "resampled_gaps", value: &ResampledGaps{}},
		{name: "vllm_bench", value: VLLMBench{}},
		{name: "inference_perf_constant", value: InferencePerfConstant{}},
		{name: "inference_perf_poisson", value: InferencePerfPoisson{}},
		{name: "sglang_bench", value: SGLangBench{}},
		{name: "mlperf_server", value: MLPerfServer{}},
		{name: "vidur_poisson", value: VidurPoisson{}},
		{name: "guidellm_poisson", value: GuideLLMPoisson{}},
		{name: "servegen_windows", value: ServeGenWindows{}},
		{name: "servegen_recorded", value: &ServeGenRecordedArrivals{}},
	}
	rateKinds = []documentKind{
		{name: "diurnal", value: Diurnal{}},
		{name: "ramp", value: Ramp{}},
		{name: "steps", value: Steps{}},
	}
	lengthsKinds = []documentKind{
		{name: "tokens", value: Tokens{}},
		{name: "independent", value: Independent{}},
		{name: "mixture", value: Mixture{}},
		{name: "azure_code_2023", preset: func() any { return AzureCode2023Lengths() }},
		{name: "azure_conv_2023", preset: func() any { return AzureConv2023Lengths() }},
		{name: "truncated", value: Truncated{}},
		{name: "resample", value: Resample(nil), field: "pairs"},
		{name: "recorded", value: &RecordedLengths{}},
		{name: "servegen_lengths", value: ServeGenLengths{}},
		{name: "servegen_recorded", value: &ServeGenRecordedLengths{}},
	}
	lengthKinds = []documentKind{
		{name: "fixed", value: Fixed(0), field: "tokens"},
		{name: "log_normal", value: LogNormal{}},
		{name: "log_normal_mixture", value: LogNormalMixture{}},
		{name: "empirical", value: Empirical{}},
		{name: "count", value: Count(0), field: "number"},
	}
	delayKinds = []documentKind{
		{name: "after", value: After(0), field: "delay_s"},
		{name: "log_normal", value: LogNormalDelay{}},
		{name: "exponential", value: ExponentialDelay{}},
		{name: "resample", value: ResampleDelay(nil), field: "delays_s"},
		{name: "mixed", value: MixedDelay(nil), field: "delays"},
	}
	preambleKinds = []documentKind{
		{name: "preambles", value: Preambles(nil), field: "parts"},
		{name: "system_prompts", value: SystemPrompts{}},
		{name: "unshared", value: Unshared(0), field: "tokens"},
		{name: "tree", value: Tree{}},
		{name: "ragpulse_passages", preset: func() any { return RAGPulsePassages() }},
		{name: "retrieval", value: Retrieval{}},
	}
	pathKinds = []documentKind{
		{name: "parts", value: ClientPath{}},
		{name: "same_region", preset: func() any { return SameRegion() }},
		{name: "cross_region", preset: func() any { return CrossRegion() }},
		{name: "mobile", preset: func() any { return Mobile() }},
	}
	// foreignTags are doc tags for types of other packages, by field.
	foreignTags = map[reflect.Type][]string{
		reflect.TypeFor[sim.Class]():    {"name,opt", "priority,opt", "ttft_ms,opt", "gap_ms,opt"},
		reflect.TypeFor[sim.Patience](): {"first_ms,opt", "total_ms,opt"},
		reflect.TypeFor[sim.Path](): {"network_in_ms,opt", "gateway_ms,opt", "retrieval_ms,opt", "assembly_ms,opt",
			"proxy,opt", "network_out_ms,opt", "tail_ms,opt"},
		reflect.TypeFor[sim.Proxy](): {"tokens,opt", "every_ms,opt"},
	}
)

// kindNamed returns the kind of a name, nil if there is none.
func kindNamed(t reflect.Type, name string) *documentKind {
	kinds := kindsOf(t)
	for i := range kinds {
		if kinds[i].name == name {
			return &kinds[i]
		}
	}
	return nil
}

// kindOf returns the kind of a value: a preset if it is one, else that of its
// type, nil if there is none.
func kindOf(t reflect.Type, x any) *documentKind {
	var found *documentKind
	kinds := kindsOf(t)
	for i := range kinds {
		k := &kinds[i]
		switch {
		case k.preset != nil && reflect.DeepEqual(k.preset(), x):
			return k
		case k.preset == nil && found == nil && reflect.TypeOf(k.value) == reflect.TypeOf(x):
			found = k
		}
	}
	return found
}

func kindNames(t reflect.Type) string {
	var names []string
	for _, k := range kindsOf(t) {
		names = append(names, k.name)
	}
	return strings.Join(names, ", ")
}
