// Package workload makes the requests of a run: when they arrive, how long
// they are and what their clients ask for.
//
//	Constant Poisson Gamma Bursts MMPP          Tokens Independent Resample Mixture
//	          Arrivals                                       Lengths
//	             │                                              │
//	   Limit  Scale  Shift                      Share: class, weight, limits
//	             │                                              │
//	             └───────────────► Workload ◄──────────────────┘
//	                                   │
//	AzureCSV Mooncake (recordings) ──► iter.Seq2[sim.Request, error] ──► sim.Run ──► Completion
//	                                   │                                    ▲            │
//	                                   │                                    └── Retry ◄──┘
//	                                   └──► Describe: rate, gap CV, IDC, percentiles
//
// Everything is a literal struct and is checked when it is used: an invalid
// field is the first, and only, error of the iterator. Nothing is generated
// ahead of its use, and memory does not grow with the number of requests,
// unless a reader is asked to sort.
//
// Reading order: workload.go (the composition), arrivals.go, gamma.go,
// bursts.go, mmpp.go, combine.go (when), lengths.go, lognormal.go, mixture.go
// (how long), presets.go (fits of public recordings), rand.go (where chance
// comes from), requests.go, azure.go, mooncake.go (recordings), describe.go;
// acceptance.go and acceptancecurve.go (which draft tokens are right); retry.go
// and followups.go (clients that try again).
//
// # Determinism
//
// The same seed gives the same requests, bit for bit, in the same binary. The
// class, the lengths and the hint of request i come from streams keyed by
// (Seed, purpose, i), and the arrivals from a stream of their own. Two runs
// that differ in scheduler, hardware or arrival rate therefore see request i
// with the same lengths. Draws that pass through math.Exp or math.Log may
// differ in the last bit between processor families.
//
// # Words
//
//   - Arrival: the intended instant at which a request reaches the engine.
//   - Gap: the time between two successive arrivals.
//   - CV: standard deviation divided by mean; 1 for the gaps of a Poisson process.
//   - IDC, index of dispersion for counts: variance divided by mean of the
//     arrivals in windows of one width; 1 at every width for a Poisson process.
//   - MMPP: Markov-modulated Poisson process.
//   - Share: one class of a workload with its part of the requests.
//   - Attempt: a request as it is sent, for the first time or again; a retry is
//     one after the first.
//   - Recording: a workload recorded elsewhere and replayed.
//   - Row: a request as a recording has it.
//   - Tick: the rows of a recording that have one timestamp because its clock
//     was coarse.
package workload
