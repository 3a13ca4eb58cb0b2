// Package scheduler holds policies for the engine in package sim: schedulers,
// routers and orders.
//
//	             prompts                beside decodes   memory
//	RequestBatch whole, batch by batch  never            reserved for the longest output
//	Continuous   whole, first           never            as needed, or reserved (Orca)
//	ChunkedPrefill in chunks            always           prompt at admission, then as needed
//
//	arrivals ─► RoundRobin · LeastLoaded · TwoChoices ─► queue: ByArrival · ByPriority
//	                                                     ByPrompt · ByHint · ByDeadline
//
// Read chunked.go first, then continuous.go and requestbatch.go; decode.go has
// what they share. router.go and order.go stand by themselves.
//
// Schedulers make no decision from the true output length, which they cannot
// see. Where memory runs out, the youngest running sequence is preempted. The
// head of the queue is never overtaken: a request that does not fit blocks
// those behind it, so that none starves.
package scheduler
