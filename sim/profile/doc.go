// Package profile says where the time of requests goes, from their traces: a
// phase-aware profiler, and the scorer for profilers of others.
//
//	file ──► Read ───┐
//	records ─► Add ──┴► Profiler ──Report──► Report ──► JSON, WriteText
//	                                           │
//	   TTFT, ITL, E2E   phases and residual    ├─ Complete ──► Diagnosis, one page
//	   dominant phases  what is slow above p95 └─ Answer ──┐
//	   by class, band, cache, route                        ▼
//	   server against client, Little's law    Truth ──► ScoreAnswers ──► Score
//
//	workflow.json ──► ReadWorkflows ──► Workflow ──► Path: critical path, slack
//
// Read profiler.go first, then assemble.go for the figures, report.go for what
// comes out, nexttest.go for the dominant phases, tail.go, groups.go,
// delivery.go and little.go for the diagnosis. workflow.go is for compound
// requests, diagnosis.go for the record of a diagnosis, score.go for scoring.
// document.go is the strict JSON of the files beside traces.
//
// # What it refuses and what it leaves open
//
// A record with a negative span, with an instant that is no number, with an id
// that was there, is refused with file, line and field: a measurement that is
// broken has no percentile. Time that no phase covers stays a residual. Groups
// of a few requests show their size and no latencies. Properties of slow
// requests are told apart from chance; they are candidates for a cause, which
// only the next test can show.
//
// # Percentiles
//
// Totals are formed per request and percentiles of totals after; percentiles
// of phases do not add. The convention is linear interpolation unless
// Options.Percentiles says nearest rank, and every report names it. Figures are
// computed in float64 milliseconds, as by a reader of the file; sums are exact.
//
// # Words
//
// Tail: the requests above a percentile, the exceedance set. Excess: what they
// take longer in the mean than the others. Factor: a property in which the two
// differ. Cell: the requests that share a value. Span: one piece of work of a
// workflow. Slack: how much later a span could end without delaying the whole.
// Truth: the label of a scenario, known from how it was made.
package profile
