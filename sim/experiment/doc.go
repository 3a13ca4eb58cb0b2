// Package experiment says how sure a simulated result is.
//
//	seed 1  ┌ scheduler A ─► a₁ ┐
//	        └ scheduler B ─► b₁ ┤
//	seed 2  ┌ scheduler A ─► a₂ ┼─► Paired ──► difference and ratio, with intervals
//	        └ scheduler B ─► b₂ ┤
//	 …                          ┘
//	one long run ─► x₁ x₂ x₃ … ──► MeanInterval ──► mean with an interval
//
// Both return intervals at a level such as 0.95. Read interval.go, then
// paired.go and batch.go.
//
// # Words
//
// Replication: a run with a seed of its own. Paired: two systems under the
// same seed meet the same arrivals and lengths, so what the workload does to
// both cancels in the difference. Batch means: successive observations of one
// run depend on each other; the means of long batches hardly do.
package experiment
