// Package costmodel tells how long a step takes on a replica: Linear, Roofline
// and Transformer are each a [servesim/sim.CostModel].
//
//	sim.Batch ──► Linear       a price per token, integers only
//	          ──► Roofline     overhead + max(bytes/bandwidth, operations/rate)
//	          ──► Transformer  that maximum per operator, from a Setup
//	                              │
//	          Setup = Model + GPU + TensorParallel + Efficiency
//	                              │
//	                              ├──► KVCapacity: how many KV blocks fit
//	                              └──► KVLink: Link ──► how fast KV moves between replicas
//
// Read linear.go, then roofline.go with search.go and tally.go, which answer
// questions about one curve. model.go, gpu.go, efficiency.go and setup.go
// describe what a Transformer is made of, transformer.go and breakdown.go what
// it computes, capacity.go what remains for the cache, link.go what carries it
// elsewhere. models.go, gpus.go and links.go are the catalogue.
//
// Words this package owns. Bound: what a step waits for, such as memory or
// compute; it is an output of a model, never an assumption. Claim: whether a
// time is a lower bound, which no device can beat, or a prediction, which
// includes overheads. Crossover: where compute begins to take longer than memory.
// Setup: what a cost curve belongs to.
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
