package metrics

// Report is what a run came to. Fields whose JSON name ends in _ms or _s are
// in that unit, _per_s is per second of virtual time; the package comment says
// which observations count.
type Report struct {
	Percentiles string `json:"percentiles"` // linear or nearest-rank
	Mode        string `json:"mode"`        // exact, or streaming with its bound
	GapRule     string `json:"gap_rule"`    // how gap targets are judged
	Boundary    string `json:"boundary"`    // and where, with all targets: engine or client

	Cell // all classes together

	Steps  int64 `json:"steps"`
	Tokens int64 `json:"tokens"` // sampled by those steps, for whatever request

	SimulatedS  Number `json:"simulated_s"`   // end of the run
	WindowFromS Number `json:"window_from_s"` // start of the measured window
	WindowToS   Number `json:"window_to_s"`   // and its end

	Load
	Little Little `json:"little"`
	// Findings are contradictions between figures, and what could not be
	// measured. A sound run has none, unless it ends far from a steady state.
	Findings []string `json:"findings,omitempty"`
	// Classes holds one cell per class, in the order of Config.Classes.
	Classes []Cell `json:"classes"`
}

// Cell is the part of a report about the requests of one class, or of all.
// Arrived counts requests, each once; Completed, Rejected, Aborted and
// Unfinished add up to their Attempts, which are as many if nobody tries again.
type Cell struct {
	Class       string       `json:"class,omitempty"`
	Arrived     int64        `json:"arrived"`
	Completed   int64        `json:"completed"`
	Rejected    int64        `json:"rejected"`
	Aborted     int64        `json:"aborted"`
	Unfinished  int64        `json:"unfinished"`
	Rejections  []Rejections `json:"rejections,omitempty"` // by reason, sorted
	Preemptions int64        `json:"preemptions"`
	OneToken    int64        `json:"one_token"` // completed with one token: no TPOT
	Met         int64        `json:"met"`       // completed and met every stated target

	Attempts int64 `json:"attempts"` // first ones and retries
	Failed   int64 `json:"failed"`   // requests of which no attempt completed or is under way
	// Tokens of aborted attempts: of their prompts, and those that had come.
	AbortedPrompt int64 `json:"aborted_prompt_tokens"`
	AbortedOutput int64 `json:"aborted_output_tokens"`
	Deferrals

	TTFT Summary `json:"ttft_ms"`
	ITL  Summary `json:"itl_ms"`
	TPOT Summary `json:"tpot_ms"`
	E2E  Summary `json:"e2e_ms"`
	// Client is what the clients saw; nil without Options.Client.
	Client *Client `json:"client,omitempty"`

	// Rates of all cells share one time, from the first arrival to the last
	// completion of any class, so that those of the classes add up.
	TokenThroughput   Number `json:"throughput_tok_per_s"` // output tokens of completed requests
	RequestThroughput Number `json:"throughput_req_per_s"`
	// Goodput and Attainment are undefined where no class states a target, or
	// where of a request it is not known whether it met it.
	Goodput    Number `json:"goodput_req_per_s"`
	Attainment Number `json:"slo_attainment"`
	// AttemptRate counts attempts as Goodput counts requests.
	AttemptRate Number `json:"attempts_per_s"`
}

// Client is the latencies of completed requests at their clients, from the send
// of the request on.
type Client struct {
	TTFT Summary `json:"ttft_ms"`
	ITL  Summary `json:"itl_ms"` // not measured without Options.ClientGaps
	TPOT Summary `json:"tpot_ms"`
	E2E  Summary `json:"e2e_ms"`
	// FirstUnknown counts the requests of which it is not known when the first
	// token came: they have no TTFT, and no TPOT.
	FirstUnknown int64 `json:"first_token_unknown"`
}

// Rejections counts the attempts rejected for one reason.
type Rejections struct {
	Reason string `json:"reason"`
	Count  int64  `json:"count"`
	Prompt int64  `json:"prompt_tokens"`
}

// Deferrals describes the attempts that sim.Config.Admission made wait at the
// front door. Their wait ends in a queue, or with them; times are in
// milliseconds, of those whose wait has ended.
type Deferrals struct {
	Deferred       int64  `json:"deferred"`
	DeferredPrompt int64  `json:"deferred_prompt_tokens"`
	StillDeferred  int64  `json:"still_deferred"` // of Deferred, at the end
	DeferredMean   Number `json:"deferred_wait_mean_ms"`
	DeferredMax    Number `json:"deferred_wait_max_ms"`
}

// Summary describes N latencies, in milliseconds.
type Summary struct {
	N    int64  `json:"n"`
	Mean Number `json:"mean"`
	P50  Number `json:"p50"`
	P90  Number `json:"p90"`
	P95  Number `json:"p95"`
	P99  Number `json:"p99"`
	Max  Number `json:"max"`
	// Few names the percentiles with too few observations beyond them, such
	// as "p99": numbers to look at, not facts.
	Few []string `json:"few,omitempty"`
}

// Load is what the replicas together carried, over time. Means are over the
// window unless they say otherwise; a peak is a level that lasted.
type Load struct {
	DoorMean     Number `json:"door_mean"` // requests deferred at the front door
	DoorPeak     int64  `json:"door_peak"`
	QueueMean    Number `json:"queue_mean"` // requests waiting in the queues of replicas
	QueuePeak    int64  `json:"queue_peak"`
	InSystemMean Number `json:"in_system_mean"` // between arrival and end
	InSystemPeak int64  `json:"in_system_peak"`
	RunningMean  Number `json:"running_mean"` // admitted
	RunningPeak  int64  `json:"running_peak"`

	BatchMean    Number `json:"batch_mean"`          // sequences in a step, over the busy time
	BatchPerStep Number `json:"batch_mean_per_step"` // each step counts the same
	BatchPeak    int64  `json:"batch_peak"`

	// Fractions of the usable KV blocks, KVBlocks - ReservedBlocks, over the
	// replicas that have a limit; undefined if none has. A replica between
	// steps counts as empty. The peak is that of the fullest replica.
	KVMean Number `json:"kv_mean"`
	KVPeak Number `json:"kv_peak"`

	Busy Number `json:"busy"` // fraction of the replicas' time spent in steps
}
