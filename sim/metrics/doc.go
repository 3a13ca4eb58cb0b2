// Package metrics turns the events of a run into the numbers of a report.
//
//	sim.Run ──events──► Collector ──Report──► Report ──► JSON
//	                     │                      │
//	                     ├ requests: one cell   └──────► WriteText, 80 columns
//	                     │ per class
//	                     ├ steps: gaps between tokens, batch, KV blocks
//	                     └ levels: door, queue, running, in the system, over time
//	            ├► Utilisation: MFU and MBU of steps and of the run
//	            ├► Observation: the rate of steps at fixed concurrency, raw
//	            └► Prometheus: text under vLLM's names
//
// Read collector.go first, then request.go, client.go, door.go and step.go for
// the events, report.go for what comes out, and definitions.go for what each figure means;
// the text form of a report repeats those definitions.
//
// # Which observations count
//
// Latencies (TTFT, TPOT, E2E) and counts describe the requests that arrive in
// the window [Options.WarmUp, Options.Until), wherever they end; latencies
// only those of them that complete, so read attainment beside them. The gaps
// between tokens are grouped by step and carry no arrival time: a gap counts,
// whatever becomes of its request, when the token that ends it is sampled in
// the window. Steps and tokens count when the step ends in the window. Levels
// over time, KV occupancy and busy time are cut exactly at both ends of the
// window. Without a window all of these are the whole run. Rates run up to the
// last completion of a counted request, so after the window while it drains.
//
// # At the client
//
// The engine's figures start at the arrival and end where tokens are sampled.
// With [Options.Client] the report has the latencies of completed requests at
// their clients beside them, by the sim.Path of each: from the send, to the
// tokens as proxy and network deliver them. That costs nothing per token; every
// gap at the client, which does, is [Options.ClientGaps]. Targets are judged at
// the engine or, with [Options.Boundary], at the client. Behind a proxy that
// counts tokens the first token, and behind any proxy the gaps, are known only
// with sim.Config.TokenTimes: without it they are not measured, and neither are
// the goodput and the attainment that depend on them. Which requests the window
// holds is decided by their arrival at the engine, at either boundary.
//
// # Clients that try again
//
// A retry (sim.Request.Attempt) belongs to its first attempt. The request
// arrives once, with that attempt; it is in the window if that attempt is; its
// latencies, and so its targets, count from there; and it is one of the
// requests that attainment divides by, whatever becomes of it. Rejections by
// reason, aborts, deferrals and preemptions are counted attempt by attempt, as
// the load that the deployment saw, and so are the levels over time and
// Little's law. The collector keeps nothing of a request between two attempts.
//
// # Words
//
// Boundary: where latencies are seen, at the engine or at the client.
// Attainment: the share of arrivals that met every stated target of their
// class. Goodput: those requests per second. Cell: the figures of one class,
// or of all. Attempt: a request as it reached the front door, for the first
// time or again. Deferred: made to wait there by admission. Failed: a request of
// which no attempt completed or is under way. Finding: a sentence about a figure
// that contradicts another.
package metrics
