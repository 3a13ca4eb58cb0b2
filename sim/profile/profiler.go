package profile

import (
	"fmt"
	"io"
	"slices"
	"time"

	"servesim/sim/trace"
)

// Options are the choices of a profile. The zero value interpolates
// percentiles, looks above p95 and refuses partial records.
type Options struct {
	// Percentiles is the convention for all percentiles.
	Percentiles Method
	// Tail is the fraction above which requests are slow: 0 < Tail < 1, 0 means
	// 0.95.
	Tail float64
	// MinCell is the number of requests below which a group is flagged and its
	// latencies are left out. 0 means 20: below it nothing lies beyond a p95.
	MinCell int
	// PromptBands are the largest prompts of all bands but the last, ascending.
	// nil means 512, 2048, 8192, 32768.
	PromptBands []int
	// Partial accepts records that lack instants. Their uncovered time is a
	// residual; no phase gets it.
	Partial bool

	// Arrivals names the arrival process in the report; "" means "trace replay".
	Arrivals string
	// InSystem is the mean number of requests in the system as something else
	// than the trace counted it, such as a gauge of the server. It is compared
	// with what the trace implies. 0 means not counted.
	InSystem float64
	// Targets of the user. 0 is no target.
	TTFT, ITL, E2E time.Duration
}

func (o Options) withDefaults() (Options, error) {
	switch {
	case o.Percentiles > NearestRank:
		return o, fmt.Errorf("profile: Options.Percentiles is %v", o.Percentiles)
	case o.Tail == 0:
		o.Tail = 0.95
	case !(o.Tail > 0 && o.Tail < 1):
		return o, fmt.Errorf("profile: Options.Tail is %v, want between 0 and 1", o.Tail)
	}
	if o.MinCell < 0 {
		return o, fmt.Errorf("profile: Options.MinCell is %d, want at least 0", o.MinCell)
	}
	if o.MinCell == 0 {
		o.MinCell = 20
	}
	if o.PromptBands == nil {
		o.PromptBands = []int{512, 2048, 8192, 32768}
	}
	for i, b := range o.PromptBands {
		if b < 1 || i > 0 && b <= o.PromptBands[i-1] {
			return o, fmt.Errorf("profile: Options.PromptBands are %v, want them to ascend from at least 1", o.PromptBands)
		}
	}
	if !(o.InSystem >= 0 && o.InSystem < 1e15) {
		return o, fmt.Errorf("profile: Options.InSystem is %v, want at least 0", o.InSystem)
	}
	for _, t := range []struct {
		name   string
		target time.Duration
	}{{"TTFT", o.TTFT}, {"ITL", o.ITL}, {"E2E", o.E2E}} {
		if t.target < 0 {
			return o, fmt.Errorf("profile: Options.%s is %v, want at least 0", t.name, t.target)
		}
	}
	if o.Arrivals == "" {
		o.Arrivals = "trace replay"
	}
	return o, nil
}

// Profiler collects records and reports on them. Make it with [New].
//
// Percentiles and what lies above them need every request: about 150 bytes and
// its id each, whatever its tokens, and 600 at the peak while a file is read.
// The instants of tokens are reduced to 8 bytes a gap at either end.
type Profiler struct {
	options  Options
	rows     []row
	seen     map[string]int // number of each id, from 1; nil where the reader has checked
	classes  names
	routes   names
	cached   bool // a record says what was cached
	clock    time.Duration
	delivery delivery
}

// New returns an empty profiler. The error names the option that cannot be.
func New(o Options) (*Profiler, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Profiler{options: o, seen: map[string]int{}}, nil
}

// Read profiles a file. The error names the file, line and field of the first
// fault.
func Read(r io.Reader, name string, o Options) (Report, error) {
	p, err := New(o)
	if err != nil {
		return Report{}, err
	}
	p.seen = nil
	for e, err := range (trace.Reader{In: r, Name: name, Partial: o.Partial}).Entries() {
		if err != nil {
			return Report{}, err
		}
		p.collect(&e)
	}
	return p.Report()
}

// Analyse profiles records that were made in memory.
func Analyse(records []trace.Record, o Options) (Report, error) {
	p, err := New(o)
	if err != nil {
		return Report{}, err
	}
	for _, r := range records {
		if err := p.Add(trace.Entry{Record: r}); err != nil {
			return Report{}, err
		}
	}
	return p.Report()
}

// Add takes one request. It refuses, and leaves out, what a reader of files
// would refuse: the error names the number of the record, its id and the field.
func (p *Profiler) Add(e trace.Entry) error {
	if p.seen == nil {
		panic("profile: Add to a profiler that was not made by New")
	}
	validate := e.Validate
	if p.options.Partial {
		validate = e.ValidatePartial
	}
	number := len(p.rows) + 1
	if err := validate(); err != nil {
		return fmt.Errorf("profile: record %d, request %q: %w", number, e.RequestID, err)
	}
	if first, ok := p.seen[e.RequestID]; ok {
		return fmt.Errorf("profile: record %d: request_id %q is that of record %d", number, e.RequestID, first)
	}
	p.seen[e.RequestID] = number
	p.collect(&e)
	return nil
}

// collect takes a valid entry.
func (p *Profiler) collect(e *trace.Entry) {
	r := row{id: e.RequestID, prompt: e.PromptTokens, output: e.OutputTokens, cached: -1,
		class: p.classes.index(e.Details.Class), route: p.routes.index(e.Details.Route),
		times: [...]int64{int64(e.ClientSend), int64(e.GatewayArrival), int64(e.QueueEnter), int64(e.PrefillStart), int64(e.PrefillEnd),
			int64(e.FirstTokenServer), int64(e.FirstTokenClient), int64(e.LastTokenClient)}}
	if e.Details.HasCached {
		r.cached = e.Details.CachedTokens
		p.cached = true
	}
	p.clock = max(p.clock, e.Details.ClockError)
	p.rows = append(p.rows, r)
	p.delivery.add(e)
}

// names gives numbers to strings, 0 to the empty one.
type names struct {
	list  []string
	known map[string]int32
}

func (n *names) index(s string) int32 {
	if n.known == nil {
		n.list, n.known = []string{""}, map[string]int32{"": 0}
	}
	i, ok := n.known[s]
	if !ok {
		i = int32(len(n.list))
		n.list = append(n.list, s)
		n.known[s] = i
	}
	return i
}

// recorded reports whether a string other than the empty one was seen.
func (n *names) recorded() bool { return len(n.list) > 1 }

// row is what is kept of a request.
type row struct {
	id             string
	times          [trace.NumPhases + 1]int64 // ns, or unknown
	prompt, output int
	cached         int // -1 is not recorded
	class, route   int32
}

// unknown marks an instant that a row lacks.
const unknown = int64(trace.Unknown)

// Indices of row.times.
const (
	clientSend       = int(trace.NetworkIn)
	queueEnter       = int(trace.Queue)
	firstTokenServer = int(trace.NetworkToFirst)
	firstTokenClient = int(trace.Stream)
	lastTokenClient  = trace.NumPhases
)

// measured reports whether the instants are known that TTFT and E2E need.
func (r *row) measured() bool {
	return r.times[clientSend] != unknown && r.times[firstTokenClient] != unknown && r.times[lastTokenClient] != unknown
}

func (r *row) complete() bool { return !slices.Contains(r.times[:], unknown) }

// span is the time from one instant to another in milliseconds, NaN where one
// is unknown.
func (r *row) span(from, to int) float64 {
	if r.times[from] == unknown || r.times[to] == unknown {
		return float64(undefined())
	}
	return millis(r.times[to]) - millis(r.times[from])
}

// between is span in whole nanoseconds, where both instants are known.
func (r *row) between(from, to int) time.Duration { return time.Duration(r.times[to] - r.times[from]) }

func (r *row) phase(p trace.Phase) float64 { return r.span(int(p), int(p)+1) }
func (r *row) ttft() float64               { return r.span(clientSend, firstTokenClient) }
func (r *row) e2e() float64                { return r.span(clientSend, lastTokenClient) }

// itl is the mean gap of the request, NaN for one token.
func (r *row) itl() float64 {
	if r.output < 2 {
		return float64(undefined())
	}
	return r.phase(trace.Stream) / float64(r.output-1)
}

// residual is the part of the E2E that lies in no measured phase. It is summed
// in whole nanoseconds, so that a complete record has exactly none.
func (r *row) residual() float64 {
	rest := r.between(clientSend, lastTokenClient)
	for p := range trace.NumPhases {
		if r.times[p] != unknown && r.times[p+1] != unknown {
			rest -= r.between(p, p+1)
		}
	}
	return float64(rest) / 1e6
}
