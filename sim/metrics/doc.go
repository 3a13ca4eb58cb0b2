// Package metrics turns the events of a run into the numbers of a report.
//
//	sim.Run ──events──► Collector ──Report──► Report ──► JSON
//	                     │                      │
//	                     ├ requests: one cell   └──────► WriteText, 80 columns
//	                     │ per class
//	                     ├ steps: gaps between tokens, batch, KV blocks
//	                     └ levels: queue, running, in the system, over time
//	            └► Utilisation: MFU and MBU of steps and of the run
//
// Read collector.go first, then request.go and step.go for the two kinds of
// events, report.go for what comes out, and definitions.go for what each
// figure means; the text form of a report repeats those definitions.
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
// # Words
//
// Attainment: the share of arrivals that met every stated target of their
// class. Goodput: those requests per second. Cell: the figures of one class,
// or of all. Finding: a sentence about a figure that contradicts another.
package metrics
