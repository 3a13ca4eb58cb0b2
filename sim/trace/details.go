package trace

import (
	"fmt"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"servesim/sim"
)

// Entry is one line of a file: a timeline and what is known beside it.
type Entry struct {
	Record
	Details Details
}

// Details are the optional fields of a line. They count only where
// details_version stands beside them: fields of the same names in files of
// others may mean anything. The zero value is a line without details.
type Details struct {
	Class string // "class": kind of request; "" is not recorded
	Route string // "route": who served it, such as a replica or a region; "" is not recorded

	// CachedTokens are the prompt tokens found in the prefix cache, where
	// HasCached says that they are recorded: "cached_tokens".
	CachedTokens int
	HasCached    bool

	// ClockError is how far the clocks of two processes may be apart:
	// "clock_error_ms". 0 is one clock, or not recorded.
	ClockError time.Duration

	// Parts of the gateway phase, each measured on one clock: "retrieval_ms" and
	// "prompt_assembly_ms". 0 is none, or not recorded.
	Retrieval, Assembly time.Duration
	// Tail is what the client does behind last_token_client until it has its
	// answer: "client_tail_ms". E2E ends before it. 0 is none, or not recorded.
	Tail time.Duration

	// Instants at which each output token left the server, on its clock, and
	// reached the client: "server_tokens_ms", "client_tokens_ms". nil is not
	// recorded.
	ServerTokens, ClientTokens []sim.Time
}

// DetailsVersion is the version of the fields of Details: "details_version".
const DetailsVersion = 1

var detailNames = [...]string{"details_version", "class", "route", "cached_tokens", "clock_error_ms",
	"retrieval_ms", "prompt_assembly_ms", "client_tail_ms", "server_tokens_ms", "client_tokens_ms"}

const (
	detailFields = len(detailNames)
	durationsOf  = 4 // index of the first duration in detailNames
	tokensOf     = 8 // and of the first list of tokens
)

// durations are those of the details, in the order of detailNames.
func (d *Details) durations() [tokensOf - durationsOf]*time.Duration {
	return [...]*time.Duration{&d.ClockError, &d.Retrieval, &d.Assembly, &d.Tail}
}

// Validate reports the first fault of the record, then of the details:
// durations must not be negative, nor retrieval and prompt assembly longer than
// the gateway phase that holds them; token instants must be as many as the
// output tokens, start and end with those of the record, and not decrease; no
// token may reach the client before it left the server.
func (e *Entry) Validate() error { return e.validate(false) }

// ValidatePartial is Validate for an entry that may lack instants.
func (e *Entry) ValidatePartial() error { return e.validate(true) }

func (e *Entry) validate(partial bool) error {
	if err := e.Record.validate(partial); err != nil {
		return err
	}
	return e.validateDetails()
}

func (e *Entry) validateDetails() error {
	d := &e.Details
	switch {
	case !utf8.ValidString(d.Class):
		return fmt.Errorf("class is %q, not UTF-8", d.Class)
	case !utf8.ValidString(d.Route):
		return fmt.Errorf("route is %q, not UTF-8", d.Route)
	case !d.HasCached && d.CachedTokens != 0:
		return fmt.Errorf("cached_tokens is %d but not marked as recorded", d.CachedTokens)
	case d.CachedTokens < 0 || d.CachedTokens > e.PromptTokens:
		return fmt.Errorf("cached_tokens is %d, want 0 to prompt_tokens %d", d.CachedTokens, e.PromptTokens)
	}
	for i, v := range d.durations() {
		if *v < 0 || !inRange(sim.Time(*v)) {
			return fmt.Errorf("%s is %s, want at least 0 and less than 146 years", detailNames[durationsOf+i], appendMillis(nil, sim.Time(*v)))
		}
	}
	if gateway := span(e.GatewayArrival, e.QueueEnter); gateway != Unmeasured && d.Retrieval > gateway-d.Assembly {
		return fmt.Errorf("retrieval_ms %s and prompt_assembly_ms %s take longer than the gateway phase, %s",
			appendMillis(nil, sim.Time(d.Retrieval)), appendMillis(nil, sim.Time(d.Assembly)), appendMillis(nil, sim.Time(gateway)))
	}
	if err := e.validateTokens("server_tokens_ms", d.ServerTokens, e.FirstTokenServer, Unknown); err != nil {
		return err
	}
	if err := e.validateTokens("client_tokens_ms", d.ClientTokens, e.FirstTokenClient, e.LastTokenClient); err != nil {
		return err
	}
	if d.ServerTokens == nil || d.ClientTokens == nil {
		return nil
	}
	for i, t := range d.ClientTokens {
		if t < d.ServerTokens[i] {
			return fmt.Errorf("client_tokens_ms: token %d came at %s, before it left the server at %s: align the clocks first",
				i+1, appendMillis(nil, t), appendMillis(nil, d.ServerTokens[i]))
		}
	}
	return nil
}

// validateTokens checks the instants of the tokens against those of the
// record, as far as those are known.
func (e *Entry) validateTokens(name string, tokens []sim.Time, first, last sim.Time) error {
	if tokens == nil {
		return nil
	}
	if len(tokens) != e.OutputTokens {
		return fmt.Errorf("%s has %d instants, want output_tokens %d", name, len(tokens), e.OutputTokens)
	}
	for i, t := range tokens {
		if !inRange(t) {
			return fmt.Errorf("%s: token %d at %s, beyond 146 years", name, i+1, appendMillis(nil, t))
		}
		if i > 0 && t < tokens[i-1] {
			return fmt.Errorf("%s: token %d at %s is before token %d at %s", name, i+1, appendMillis(nil, t), i, appendMillis(nil, tokens[i-1]))
		}
	}
	if n := len(tokens) - 1; first != Unknown && tokens[0] != first {
		return fmt.Errorf("%s starts at %s, the record's first token is at %s", name, appendMillis(nil, tokens[0]), appendMillis(nil, first))
	} else if last != Unknown && tokens[n] != last {
		return fmt.Errorf("%s ends at %s, the record's last token is at %s", name, appendMillis(nil, tokens[n]), appendMillis(nil, last))
	}
	return nil
}

// recorded reports whether there is anything to write.
func (d *Details) recorded() bool {
	return d.Class != "" || d.Route != "" || d.HasCached || d.ClockError|d.Retrieval|d.Assembly|d.Tail != 0 ||
		d.ServerTokens != nil || d.ClientTokens != nil
}

// AppendJSON appends the entry as one line of a file, without the line end.
// Instants that are Unknown, and details that are not recorded, are left out.
// It does not validate.
func (e *Entry) AppendJSON(dst []byte) []byte {
	return e.Details.append(e.Record.AppendJSON(dst))
}

// append appends the details to the line of their record.
func (d *Details) append(dst []byte) []byte {
	if !d.recorded() {
		return dst
	}
	dst = dst[:len(dst)-1] // the brace
	dst = strconv.AppendInt(append(dst, `,"details_version":`...), DetailsVersion, 10)
	if d.Class != "" {
		dst = appendString(append(dst, `,"class":`...), d.Class)
	}
	if d.Route != "" {
		dst = appendString(append(dst, `,"route":`...), d.Route)
	}
	if d.HasCached {
		dst = strconv.AppendInt(append(dst, `,"cached_tokens":`...), int64(d.CachedTokens), 10)
	}
	for i, v := range d.durations() {
		if *v != 0 {
			dst = append(append(append(dst, `,"`...), detailNames[durationsOf+i]...), `":`...)
			dst = appendMillis(dst, sim.Time(*v))
		}
	}
	dst = appendTokens(dst, "server_tokens_ms", d.ServerTokens)
	dst = appendTokens(dst, "client_tokens_ms", d.ClientTokens)
	return append(dst, '}')
}

func appendTokens(dst []byte, name string, tokens []sim.Time) []byte {
	if tokens == nil {
		return dst
	}
	dst = append(append(append(dst, `,"`...), name...), `":[`...)
	for i, t := range tokens {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendMillis(dst, t)
	}
	return append(dst, ']')
}

// parseDetails reads the texts of the fields of Details, of which the version
// is there; nil is a field that is not.
func parseDetails(values [detailFields][]byte) (d Details, err error) {
	if string(values[0]) != strconv.Itoa(DetailsVersion) {
		return Details{}, fmt.Errorf("details_version is %s, want %d", shorten(values[0]), DetailsVersion)
	}
	for i, s := range []*string{&d.Class, &d.Route} {
		if *s, err = parseString(detailNames[1+i], values[1+i]); err != nil {
			return Details{}, err
		}
	}
	if values[3] != nil {
		d.HasCached = true
		if d.CachedTokens, err = strconv.Atoi(string(values[3])); err != nil {
			return Details{}, fmt.Errorf("cached_tokens is %s, want an integer below 2⁶³", shorten(values[3]))
		}
	}
	for i, v := range d.durations() {
		if values[durationsOf+i] == nil {
			continue
		}
		t, err := parseInstant(detailNames[durationsOf+i], values[durationsOf+i])
		if err != nil {
			return Details{}, err
		}
		*v = time.Duration(t)
	}
	for i, tokens := range []*[]sim.Time{&d.ServerTokens, &d.ClientTokens} {
		if *tokens, err = parseTokens(detailNames[tokensOf+i], values[tokensOf+i]); err != nil {
			return Details{}, err
		}
	}
	return d, nil
}

func parseString(name string, text []byte) (string, error) {
	if text == nil {
		return "", nil
	}
	if text[0] != '"' {
		return "", fmt.Errorf("%s is %s, want a string", name, shorten(text))
	}
	s, err := unquote(text)
	if err != nil {
		return "", fmt.Errorf("%s %w", name, err)
	}
	return string(s), nil
}

func parseInstant(name string, text []byte) (sim.Time, error) {
	if text[0] != '-' && (text[0] < '0' || text[0] > '9') {
		return 0, fmt.Errorf("%s is %s, want a number", name, shorten(text))
	}
	t, err := parseMillis(text)
	if err != nil {
		return 0, fmt.Errorf("%s is %s, %w", name, shorten(text), err)
	}
	return t, nil
}

func parseTokens(name string, text []byte) ([]sim.Time, error) {
	if text == nil {
		return nil, nil
	}
	if text[0] != '[' {
		return nil, fmt.Errorf("%s is %s, want a list of numbers", name, shorten(text))
	}
	tokens := []sim.Time{}
	o := object{data: text, at: 1}
	for o.peek() != ']' {
		item := o.extent()
		t, err := parseInstant(fmt.Sprintf("%s: token %d", name, len(tokens)+1), item)
		if err != nil {
			return nil, err
		}
		tokens = append(tokens, t)
		if o.peek() == ',' {
			o.at++
		}
	}
	return slices.Clip(tokens), nil
}
