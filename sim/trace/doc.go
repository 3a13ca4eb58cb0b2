// Package trace holds what a run, or a measurement, did to each request: eight
// instants on one clock, written and read as JSON lines.
//
//	client_send ≤ gateway_arrival ≤ queue_enter ≤ prefill_start ≤ prefill_end
//	     └network_in┘└───gateway───┘└───queue───┘└───prefill────┘
//	         ≤ first_token_server ≤ first_token_client ≤ last_token_client
//	first_decode┘└─network_to_first─┘└─────stream─────┘└client tail─►
//
//	sim.Run ──Finish──► Writer ──► {"request_id":"17", …} ──► Read ──► Record
//	                      ▲                                   Reader ──► Entry
//	          Break ──────┘ clocks, spans and records at fault
//
//	sim.Run ──events──► Chrome ───────► trace events for Perfetto and chrome://tracing
//	            ├─────► OTLP ─────────► spans for OpenTelemetry ──► OTLPReader ──► Entry
//	            ├─────► BenchWriter ──► vLLM's result JSON ──► BenchReader ──► Bench ──► Entry
//	            └─────► CSV ──────────► tables of requests and steps
//
// Read record.go first, then phase.go for the decomposition of a record,
// details.go for what a line may hold beside it, event.go for how a request of a
// run becomes a line, writer.go and reader.go. label.go holds ground truth,
// ledger.go the names of a ledger's parts. fault.go breaks traces on purpose;
// clockfault.go and recordfault.go hold the faults. object.go and decimal.go are
// the strict JSON that the reader is made of, stream.go is strict JSON of any size.
//
// chrome.go writes whole runs, with what replicas do, for viewers; its tracks are
// in chromereplica.go. otlp.go writes requests as spans, otlpreader.go reads them.
// benchjson.go and benchreader.go are the results of vLLM's benchmark,
// benchfigures.go what they say of latencies. csv.go has the columns of the tables.
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
// # From a run
//
// The instants between queue_enter and first_token_server are those of the
// engine's events; those at the client come from the request's sim.Path, to the
// nanosecond:
//
//	network_in        NetworkIn
//	gateway           Gateway + Retrieval + Assembly, and a wait at the front door
//	network_to_first  what the Proxy holds the first token + NetworkOut
//	stream            first to last token at the client, as Proxy and NetworkOut deliver them
//	client tail       Tail, behind E2E
//
// # Labels
//
// A Label is the truth about one request: what was done to it, the dominant
// phases of its unbroken record, and the engine's ledger. It has the id of the
// record and stands where its user wants it:
//
//	sim.Run ──Finish──► Writer       ──► trace.jsonl   without labels: a profiler is blind
//	   │                Writer.Labels──► trace.jsonl   labels as fields that readers leave out
//	   └──────Finish──► LabelWriter  ──► labels.jsonl  ──► ReadLabels ──► Label
//
//	{"request_id":"17","label_version":1,"causes":["long_prompt"],"ttft_phase":"prefill",
//	 "e2e_phase":"stream","ledger_ns":{"prefill_compute":530250001, …}}
//
// ReadLabels reads labelled traces too. For faults of the trace, collect the ids
// that Break marks and add their cause to the labels of the unbroken trace, made
// by LabelFromEvent; Writer.WriteLabelled and LabelWriter.Write write both.
//
// # Words
//
// Trace: the timelines that a run emits. Phase: the time between two
// neighbouring instants; the seven of them tile the request's life. Residual:
// the part of that life that lies in no measured phase. Entry: a record and its
// details. Fault: a way in which a measurement goes wrong.
package trace
