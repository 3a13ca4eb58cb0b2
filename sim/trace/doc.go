// Package trace holds what a run, or a measurement, did to each request: eight
// instants on one clock, written and read as JSON lines.
//
//	client_send ≤ gateway_arrival ≤ queue_enter ≤ prefill_start ≤ prefill_end
//	     └network_in┘└───gateway───┘└───queue───┘└───prefill────┘
//	         ≤ first_token_server ≤ first_token_client ≤ last_token_client
//	first_decode┘└─network_to_first─┘└─────stream─────┘
//
//	sim.Run ──Finish──► Writer ──► {"request_id":"17", …} ──► Read ──► Record
//	                      ▲                                   Reader ──► Entry
//	          Break ──────┘ clocks, spans and records at fault
//
//	sim.Run ──events──► Chrome ───────► trace events for Perfetto and chrome://tracing
//	            ├─────► BenchWriter ──► vLLM's result JSON ──► BenchReader ──► Bench ──► Entry
//	            └─────► CSV ──────────► tables of requests and steps
//
// Read record.go first, then phase.go for the decomposition of a record,
// details.go for what a line may hold beside it, writer.go and reader.go.
// fault.go breaks traces on purpose; clockfault.go and recordfault.go hold the
// faults. object.go and decimal.go are the strict JSON that the reader is made
// of. chrome.go writes whole runs, with what replicas do, for viewers; its tracks
// are in chromereplica.go. benchjson.go and benchreader.go are the results of
// vLLM's benchmark, benchfigures.go what they say of latencies; stream.go is
// strict JSON of any size. csv.go has the columns of the tables, ledger.go the
// names of a ledger's parts.
//
// # The file
//
// One JSON object a line with the eleven fields of Record, times in
// milliseconds. Times are held as whole nanoseconds and are written as the
// shortest decimal that is exact, so that a file that is read and written
// again keeps its bytes. The reader is strict and ends at the first fault,
// which it reports with file, line and field. Fields that it does not know are
// left out, whatever they hold. Those of Details count only where
// details_version stands with them.
//
// # Words
//
// Trace: the timelines that a run emits. Phase: the time between two
// neighbouring instants; the seven of them tile the request's life. Residual:
// the part of that life that lies in no measured phase. Entry: a record and its
// details. Fault: a way in which a measurement goes wrong.
package trace
