// Package simtest tests what others plug into a simulation: schedulers, cost
// models, workloads and observers.
//
//	TestScheduler ──► Scenario ──► sim.Run ──events──► Laws   what holds in every run
//	                     │            ▲                └─► Log    one line an event; Diff
//	                     │          Chaos
//	                     └ replicas, routers, KV pressure, prefix caches, drafts, sessions, faulty requests,
//	                       and on demand prefill and decode pools, changes of role, swapping, steps in flight
//	TestCostModel ──► one model, many batches
//	TestWorkload  ──► one workload, read several times
//
// A test of one's own scheduler is one call:
//
//	func TestOwn(t *testing.T) {
//		simtest.TestScheduler(t, func() sim.Scheduler { return &Own{} })
//	}
//
// Read scheduler.go and scenario.go first (parts.go has the parts of a
// scenario, deploy.go what replicas may have of their own), then laws.go with
// life.go, step.go, ledger.go (of positions and tokens) and timeledger.go, which
// hold the laws themselves, and account.go, which tells requests apart. chaos.go, with hold.go and fetch.go,
// is a scheduler that does whatever a plan allows; it drives tests of engines
// and observers.
//
// Words this package owns. Law: a statement about events that no scheduler,
// cost model or workload can break. Residency: the time from an admission of a
// request to its next eviction or its end. Drained: said of a replica when no
// request that was queued there is alive at the end of the run.
package simtest
