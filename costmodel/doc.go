// Package costmodel tells how long a step takes on a replica: Linear, Roofline
// and Transformer are each a [servesim/sim.CostModel].
//
//	sim.Batch ──► Linear       a price per token, integers only
//	          ──► Roofline     overhead + max(bytes/bandwidth, operations/rate)
//	          ──► Transformer  the same per operator, added up, from a Setup
//	                              │
//	          Setup = Model + GPU + layout + Efficiency ◄── MeasuredKernels ◄── Fit ◄── samples
//	                    │              │
//	   config.json, catalogue          ├──► KVCapacity: how many KV blocks fit
//	                                   └──► KVLink: Link ──► how fast KV moves between replicas
//
//	Product, Attention, Latent, RoutedExperts ──► Work ──► Kernel ──► seconds
//	                                    Collective ─────────────────► seconds
//
// Read linear.go, then roofline.go with search.go and tally.go, which answer
// questions about one curve. operator.go, experts.go and collective.go are what
// a transformer consists of, efficiency.go how fast devices do it. model.go,
// precision.go, gpu.go and setup.go describe a Transformer; transformer.go,
// folded.go and exchanges.go compute its steps, breakdown.go and explain.go take
// them apart, accounting.go counts operations by convention, capacity.go says
// what remains for the cache, link.go what carries it elsewhere. models.go, gpus.go
// and links.go are the catalogue; config.go, configlayers.go and quantised.go read
// models from files.
//
// samples.go and fit.go find the coefficients of a formula in measurements,
// fitkernels.go has the formulas of measured kernels, layers and steps.
// measuredkernels.go and measuredattention.go put fits of kernels in the place of
// an Efficiency's Kernels, and kernelfits.go has those of the catalogue. table.go
// and tablegrid.go interpolate measurements. provenance.go is what all of them
// belong to, energy.go what a run costs.
//
// Words this package owns. Bound: what a step waits for, such as memory or
// compute; it is an output of a model, never an assumption. Claim: whether a
// time is a lower bound, which no device can beat, or a prediction, which
// includes overheads. Crossover: where compute begins to take longer than memory.
// Setup: what a cost curve belongs to. Work: what one launch of an operator
// computes and moves. Counted: operations by the FP8-equivalent convention, of
// a type of its own.
//
// Units: FLOPs count a multiply-add as two, rates are dense peaks (without
// 2:4 sparsity), bytes are bytes, bandwidths are bytes per second and GB is
// 1e9. Models compute in float64 seconds and round once, with
// [servesim/sim.Round].
//
// A batch that cannot exist (fewer positions than decodes, a chunk without
// tokens, a negative count) and a model literal that is not valid are
// programming errors: StepTime panics. Validate reports the latter as an error
// for literals that come from outside.
package costmodel
