package profile

// Report is what a trace says. Fields whose JSON name ends in _ms or _s are in
// that unit, _per_s is per second.
type Report struct {
	Coordinates Coordinates `json:"coordinates"`

	Requests int `json:"requests"`
	OneToken int `json:"one_token"` // have no gap, and no part in ITL
	// Requests that lack an instant have a residual. Those that lack one of the
	// client's have no TTFT or E2E: they are counted here and nowhere else.
	Partial    int `json:"partial"`
	Unmeasured int `json:"unmeasured"`

	Prompt Tokens `json:"prompt_tokens"`
	Output Tokens `json:"output_tokens"`

	TTFT Latency `json:"ttft_ms"`
	ITL  Latency `json:"itl_ms"` // one value a request: stream / (output tokens - 1)
	E2E  Latency `json:"e2e_ms"`

	// Phases are the seven, in their order.
	Phases     []Phase `json:"phases"`
	ResidualMs Number  `json:"residual_mean_ms"`

	DominantTTFT Dominant `json:"dominant_ttft"` // of the first six phases
	DominantE2E  Dominant `json:"dominant_e2e"`

	// Tails are the requests above the percentile, of TTFT and of E2E.
	Tails []Tail `json:"tails"`
	// Groups hold the same figures by class, prompt band, cache status and
	// route, as far as the trace records them.
	Groups   []Group  `json:"groups"`
	Delivery Delivery `json:"delivery"`
	Arrivals Arrivals `json:"arrivals"`
	Little   Little   `json:"little"`
	Targets  *Targets `json:"targets,omitempty"` // nil if none is stated
	Findings []string `json:"findings,omitempty"`
	ClockMs  Number   `json:"clock_error_ms"` // the largest recorded
}

// Coordinates say what a latency is a latency of. A figure without them says
// nothing.
type Coordinates struct {
	Boundary   string `json:"boundary"`
	Metric     string `json:"metric"`
	Percentile string `json:"percentile"`
	Arrivals   string `json:"arrivals"`
	Shape      string `json:"shape"`
}

// Tokens describes token counts.
type Tokens struct {
	P50 Number `json:"p50"`
	P95 Number `json:"p95"`
}

// Latency describes N latencies, in milliseconds.
type Latency struct {
	N    int    `json:"n"`
	Mean Number `json:"mean"`
	P50  Number `json:"p50"`
	P95  Number `json:"p95"`
	P99  Number `json:"p99"`
	Max  Number `json:"max"`
	// Few names the percentiles beyond which no observation need lie: p95 of
	// fewer than 20, p99 of fewer than 100.
	Few []string `json:"few,omitempty"`
}

// Phase describes one phase. Means of the phases and the residual add up to
// that of E2E; percentiles do not.
type Phase struct {
	Phase  string `json:"phase"`
	N      int    `json:"n"`       // requests that measured it
	MeanMs Number `json:"mean_ms"` // over all requests; unmeasured time is not in it
	P50Ms  Number `json:"p50_ms"`  // over those that measured it
	P95Ms  Number `json:"p95_ms"`
	MaxMs  Number `json:"max_ms"`
}

// Arrivals describes when requests were sent.
type Arrivals struct {
	SpanS    Number `json:"span_s"` // from the first to the last
	RatePerS Number `json:"rate_per_s"`
	GapCV    Number `json:"gap_cv"` // standard deviation of the gaps over their mean; 1 for Poisson
}

// Targets says how many requests met what the user asked for. A budget can hold
// phase by phase while the sum misses: only the joined requests tell.
type Targets struct {
	TTFTMs Number `json:"ttft_ms"` // undefined is no target
	ITLMs  Number `json:"itl_ms"`  // for the mean gap of a request; one token passes
	E2EMs  Number `json:"e2e_ms"`

	MetTTFT    int    `json:"met_ttft"`
	MetITL     int    `json:"met_itl"`
	MetE2E     int    `json:"met_e2e"`
	Met        int    `json:"met"`        // all that are stated
	Attainment Number `json:"attainment"` // Met / Requests; unmeasured ones count as missed
}
