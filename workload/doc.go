// Package workload makes the requests of a run: when they arrive, how long
// they are and what their clients ask for.
//
//	Constant Poisson Gamma Weibull LogNormalGaps      Tokens Independent Resample
//	Bursts OnOff MMPP Varying Superpose               Mixture Truncated
//	VLLMBench InferencePerf… (generators)                Lengths
//	          Arrivals                                      │   Preamble: SystemPrompts
//	             │                                          │   Tree Retrieval Unshared
//	   Limit  Scale  Shift                  Share: class, weight, limits
//	             │                                          │
//	             └────────────► Workload, Merged ◄──────────┘
//	                                   │
//	AzureCSV BurstGPT Mooncake ────────┤          LengthCSV ──► Observed
//	RAGPulse TraceLab LengthCSV        ▼
//	(recordings)      iter.Seq2[sim.Request, error] ──► Gate ──► ClientSide ──► sim.Run ──► Completion
//	                                   │                             ▲          ▲  │         │
//	                                   │     Retry Sessions Workflow ┘          │  └► Audit  │
//	                                   │       ▲                   GatewayQueue ┘            │
//	                                   │       └─────────────────────────────────────────────┘
//	                                   ├──► AzureWriter MooncakeWriter
//	                                   ├──► Describe: rate, gap CV, IDC, percentiles
//	                                   ├──► DescribeShape: autocorrelation, batches, eta²
//	                                   ├──► DescribeSharing DescribeContinuations: what prompts have in common
//	                                   └──► FitMMPP FitLogNormalMixture FitMixture ──► CompareLengths
//
//	a JSON file ──► ReadDocument ──► Document ──► DocumentRun: any of the above ──► sim.Run
//
// Everything is a literal struct and is checked when it is used: an invalid
// field is the first, and only, error of the iterator. Nothing is generated
// ahead of its use, and memory does not grow with the number of requests,
// unless a reader is asked to sort or a load generator fixes the sum of its
// gaps. Nothing is lost without being asked for: rows that are dropped are
// counted by reason, and what cannot be read or written is an error.
//
// Reading order: workload.go (the composition), merge.go (several); when:
// arrivals.go, gamma.go, weibull.go, lognormalgaps.go, bursts.go, onoff.go,
// mmpp.go, varying.go, ratefunctions.go, superpose.go, combine.go; how long:
// lengths.go, lognormal.go, mixture.go, empirical.go, truncated.go; what prompts
// have in common: text.go, preamble.go, retrieval.go; presets.go
// (fits of public recordings); fits of one's own: mmppfit.go, hmm.go, limits.go,
// lognormalfit.go, mixturefit.go, comparelengths.go; rand.go (where chance comes
// from), requests.go; recording.go (what readers have in common), azure.go,
// burstgpt.go, mooncake.go (also vLLM's timed traces and Qwen-Bailian),
// ragpulse.go, tracelab.go, tracelabreplay.go, lengthcsv.go, servegen.go (recordings), fromtrace.go,
// azurewriter.go, mooncakewriter.go, tracelabwriter.go; describe.go, shape.go,
// joint.go, sharing.go, continuations.go; gate.go and audit.go (was the load the one asked for);
// acceptance.go and acceptancecurve.go (which draft tokens are right); retry.go
// and followups.go (clients that try again); sessions.go (conversations, closed
// loops), agent.go (agents, contexts that become too long), workflow.go (graphs
// of calls and tools), delay.go (times between); clientpath.go, clientside.go,
// pathpresets.go and gatewayqueue.go (how far the clients are, and what stands
// before the engine); document.go (a workload written down), documentkinds.go
// (what it can say), documentrun.go, documentrecorded.go (what it takes from
// recordings), documentvalue.go and documentnode.go (JSON, strictly).
//
// # Load generators
//
// vllmbench.go, inferenceperf.go, sglangbench.go, mlperfserver.go,
// vidurpoisson.go, guidellmpoisson.go and servegenwindows.go have the arrivals
// of the tools of those names, with what is peculiar to each: several that are
// called Poisson or constant are not. They are there to repeat a measurement.
//
// # Determinism
//
// The same seed gives the same requests, bit for bit, in the same binary. The
// class, the lengths and the hint of request i come from streams keyed by
// (Seed, purpose, i), and the arrivals from a stream of their own. Two runs
// that differ in scheduler, hardware or arrival rate therefore see request i
// with the same lengths. Classes draw by name, parts of a Merged by name,
// clients of a Superpose by place, each part of a client's path and each region
// by name: one more does not disturb the others. Draws that pass through
// math.Exp or math.Log may differ in the last bit between processor families.
//
// # Words
//
//   - Arrival: the intended instant at which a request reaches the engine.
//   - Send: the instant at which the client of a request sends it, as long before
//     its arrival as its sim.Path takes.
//   - Gap: the time between two successive arrivals.
//   - CV: standard deviation divided by mean; 1 for the gaps of a Poisson process.
//   - IDC, index of dispersion for counts: variance divided by mean of the
//     arrivals in windows of one width; 1 at every width for a Poisson process.
//   - MMPP: Markov-modulated Poisson process.
//   - Censored: recorded as a limit, because a service cut it there.
//   - Truncated: left out of a recording, because it lay beyond a limit.
//   - Coordinated omission: latency that is counted from a late sending, and so
//     leaves out the wait before it.
//   - Share: one class of a workload with its part of the requests.
//   - Attempt: a request as it is sent, for the first time or again; a retry is
//     one after the first.
//   - Recording: a workload recorded elsewhere and replayed.
//   - Row: a request as a recording has it.
//   - Text: a run of tokens of a prompt; prompts with a text in common share it in
//     prefix caches.
//   - Preamble: the texts in front of a prompt that requests may have in common.
//   - Session: requests of one client, each of which waits for the answer
//     before it.
//   - Tick: the rows of a recording that have one timestamp because its clock
//     was coarse.
package workload
