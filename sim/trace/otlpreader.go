package trace

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"servesim/sim"
)

// OTLPReader reads the lines that [OTLP] writes.
//
// Lost in OTLP, and so not read back: finish reasons, preemptions and labels,
// which are no part of an Entry, whether an empty list of tokens was recorded, and
// requests that did not complete. In a line that was written unchecked ids that
// are not UTF-8 are lost too.
type OTLPReader struct {
	In   io.Reader
	Name string // what errors call the file
	// Partial accepts requests that lack instants, which are then Unknown.
	Partial bool
}

// Entries yields the completed requests of the file in its order, or one error,
// the last, which names the file, the line and what is at fault. It reads In
// once.
//
// All spans of a trace stand on one line, no id twice, the parent before its
// children, which lie in it. The resource has the epoch. Of spans that are no
// phases, of attributes and of fields of other names only the JSON is checked.
func (r OTLPReader) Entries() iter.Seq2[Entry, error] {
	return records(r.In, r.Name, ErrEmpty, func(e *Entry) string { return e.RequestID }, func(dst []Entry, line []byte) ([]Entry, error) {
		l := otlpLine{byTrace: map[string]*otlpTrace{}}
		err := l.read(line)
		for _, t := range l.traces {
			if err != nil {
				return dst, err
			}
			if t.failed {
				continue
			}
			var e Entry
			if e, err = t.entry(r.Partial); err == nil {
				dst = append(dst, e)
			} else if t.e.RequestID != "" {
				err = fmt.Errorf("request %q: %w", t.e.RequestID, err)
			}
		}
		return dst, err
	})
}

// otlpLine is one line.
type otlpLine struct {
	epoch   int64
	traces  []*otlpTrace
	byTrace map[string]*otlpTrace
}

// otlpTrace is one request.
type otlpTrace struct {
	e          Entry
	root       string
	ids        map[string]bool
	start, end sim.Time
	failed     bool
	hasID      bool
	hasTokens  [2]bool // of prompt and output
	phases     [NumPhases]bool
}

// otlpValues reads the named members of an object; those that are not there are
// nil.
func otlpValues(text []byte, what string, names ...string) ([][]byte, error) {
	values := make([][]byte, len(names))
	err := members(text, func(key []byte) *[]byte {
		if i := slices.Index(names, string(key)); i >= 0 {
			return &values[i]
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return values, nil
}

// otlpItems calls f for each item of a list, which may be missing.
func otlpItems(text []byte, what string, f func(item []byte) error) error {
	if text == nil {
		return nil
	}
	if text[0] != '[' {
		return fmt.Errorf("%s is %s, want a list", what, shorten(text))
	}
	o := object{data: text, at: 1}
	for o.peek() != ']' {
		if err := f(o.extent()); err != nil {
			return err
		}
		if o.peek() == ',' {
			o.at++
		}
	}
	return nil
}

func (l *otlpLine) read(line []byte) error {
	top, err := otlpValues(line, "line", "resourceSpans")
	if err != nil {
		return err
	}
	return otlpItems(top[0], "resourceSpans", func(item []byte) error {
		values, err := otlpValues(item, "resourceSpans", "resource", "scopeSpans")
		if err != nil {
			return err
		}
		if err := l.resource(values[0]); err != nil {
			return err
		}
		return otlpItems(values[1], "scopeSpans", func(item []byte) error {
			values, err := otlpValues(item, "scopeSpans", "spans")
			if err != nil {
				return err
			}
			return otlpItems(values[0], "spans", l.span)
		})
	})
}

// resource reads where the clock of its spans starts.
func (l *otlpLine) resource(text []byte) error {
	l.epoch = -1
	if text != nil {
		values, err := otlpValues(text, "resource", "attributes")
		if err != nil {
			return err
		}
		err = otlpAttributes(values[0], func(key string, value []byte) (err error) {
			if key == otlpEpoch {
				l.epoch, err = otlpIntValue(key, value)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	if l.epoch < 0 {
		return fmt.Errorf("the resource has no %s of at least 0", otlpEpoch)
	}
	return nil
}

// otlpAttributes calls f for each attribute, of which none may stand twice.
func otlpAttributes(text []byte, f func(key string, value []byte) error) error {
	seen := map[string]bool{}
	return otlpItems(text, "attributes", func(item []byte) error {
		values, err := otlpValues(item, "attribute", "key", "value")
		if err != nil {
			return err
		}
		if values[0] == nil || values[1] == nil {
			return errors.New("an attribute lacks its key or its value")
		}
		key, err := parseString("key", values[0])
		if err != nil {
			return err
		}
		if seen[key] {
			return fmt.Errorf("attribute %s stands twice", shorten([]byte(key)))
		}
		seen[key] = true
		return f(key, values[1])
	})
}

func otlpStringValue(key string, text []byte) (string, error) {
	values, err := otlpValues(text, key, "stringValue")
	if err != nil {
		return "", err
	}
	if values[0] == nil {
		return "", fmt.Errorf("%s is %s, want a stringValue", key, shorten(text))
	}
	return parseString(key, values[0])
}

// otlpIntValue reads an integer, which stands in a string or, as lenient readers
// of OTLP take it, for itself.
func otlpIntValue(key string, text []byte) (int64, error) {
	values, err := otlpValues(text, key, "intValue")
	if err != nil {
		return 0, err
	}
	if values[0] == nil {
		return 0, fmt.Errorf("%s is %s, want an intValue", key, shorten(text))
	}
	return otlpNumber(key, values[0])
}

func otlpNumber(key string, text []byte) (int64, error) {
	s := text
	if s[0] == '"' {
		s = s[1 : len(s)-1]
	}
	n, err := strconv.ParseInt(string(s), 10, 64)
	if err != nil || s[0] == '+' {
		return 0, fmt.Errorf("%s is %s, want an integer below 2⁶³", key, shorten(text))
	}
	return n, nil
}

// otlpInts reads a list of integers.
func otlpInts(key string, text []byte) ([]sim.Time, error) {
	values, err := otlpValues(text, key, "arrayValue")
	if err != nil {
		return nil, err
	}
	if values[0] == nil {
		return nil, fmt.Errorf("%s is %s, want an arrayValue", key, shorten(text))
	}
	if values, err = otlpValues(values[0], key, "values"); err != nil {
		return nil, err
	}
	var list []sim.Time
	err = otlpItems(values[0], key, func(item []byte) error {
		n, err := otlpIntValue(fmt.Sprintf("%s: token %d", key, len(list)+1), item)
		list = append(list, sim.Time(n))
		return err
	})
	return slices.Clip(list), err
}

// instant reads a time of day.
func (l *otlpLine) instant(key string, text []byte) (sim.Time, error) {
	if text == nil {
		return 0, fmt.Errorf("%s is missing", key)
	}
	n, err := otlpNumber(key, text)
	if err != nil {
		return 0, err
	}
	if n < 0 || !inRange(sim.Time(n-l.epoch)) {
		return 0, fmt.Errorf("%s is %s, before 1970 or %w", key, shorten(text), errRange)
	}
	return sim.Time(n - l.epoch), nil
}

// hexID reads an id of so many bytes, which is not 0.
func hexID(key string, text []byte, bytes int) (string, error) {
	s, err := parseString(key, text)
	if err != nil {
		return "", err
	}
	if len(s) != 2*bytes || strings.Trim(s, "0123456789abcdef") != "" || strings.Trim(s, "0") == "" {
		return "", fmt.Errorf("%s is %s, want %d hexadecimal digits in lower case, not all 0", key, shorten([]byte(strconv.Quote(s))), 2*bytes)
	}
	return s, nil
}

var otlpSpanNames = [...]string{"traceId", "spanId", "parentSpanId", "name", "startTimeUnixNano", "endTimeUnixNano", "attributes", "events", "status"}

// span reads one span.
func (l *otlpLine) span(text []byte) error {
	v, err := otlpValues(text, "span", otlpSpanNames[:]...)
	if err != nil {
		return err
	}
	traceID, err := hexID("traceId", v[0], 16)
	if err != nil {
		return err
	}
	id, err := hexID("spanId", v[1], 8)
	if err != nil {
		return err
	}
	parent, err := parseString("parentSpanId", v[2])
	if err != nil {
		return err
	}
	name, err := parseString("name", v[3])
	if err != nil {
		return err
	}
	start, err := l.instant("startTimeUnixNano", v[4])
	if err != nil {
		return fmt.Errorf("span %s: %w", id, err)
	}
	end, err := l.instant("endTimeUnixNano", v[5])
	if err != nil {
		return fmt.Errorf("span %s: %w", id, err)
	}
	if end < start {
		return fmt.Errorf("span %s ends %d ns before it starts", id, start-end)
	}
	t := l.byTrace[traceID]
	switch {
	case t == nil && parent != "":
		return fmt.Errorf("span %s has the parent %s, which does not stand before it on the line", id, shorten([]byte(parent)))
	case t == nil:
		t = &otlpTrace{root: id, start: start, end: end, ids: map[string]bool{}}
		for _, at := range t.e.instants() {
			*at = Unknown
		}
		l.traces, l.byTrace[traceID] = append(l.traces, t), t
	case parent == "":
		return fmt.Errorf("span %s is a second one without a parent in trace %s", id, traceID)
	case !t.ids[parent]:
		return fmt.Errorf("span %s has the parent %s, which does not stand before it on the line", id, shorten([]byte(parent)))
	case t.ids[id]:
		return fmt.Errorf("span %s stands twice", id)
	case start < t.start || end > t.end:
		return fmt.Errorf("span %s is not inside its parent", id)
	}
	t.ids[id] = true
	switch phase := slices.Index(phaseNames[:], name); {
	case parent == "":
		err = l.parent(t, v)
	case parent == t.root && phase >= 0 && !t.failed:
		err = t.phase(phase, start, end)
	}
	if err != nil {
		return fmt.Errorf("span %s: %w", id, err)
	}
	return nil
}

// parent reads what the parent knows.
func (l *otlpLine) parent(t *otlpTrace, v [][]byte) error {
	if v[8] != nil {
		status, err := otlpValues(v[8], "status", "code")
		if err != nil {
			return err
		}
		t.failed = string(status[0]) == strconv.Itoa(otlpError)
	}
	if err := otlpAttributes(v[6], t.attribute); err != nil {
		return err
	}
	if t.failed {
		return nil
	}
	return otlpItems(v[7], "events", func(item []byte) error {
		values, err := otlpValues(item, "event", "timeUnixNano", "name")
		if err != nil {
			return err
		}
		name, err := parseString("name", values[1])
		if err != nil {
			return err
		}
		i := slices.Index(fieldNames[firstOf:], name+"_ms")
		if i < 0 {
			return nil
		}
		at, err := l.instant("event "+name, values[0])
		if err != nil {
			return err
		}
		return t.known(i, at)
	})
}

func (t *otlpTrace) attribute(key string, value []byte) (err error) {
	d := &t.e.Details
	count := func(n *int) error {
		v, err := otlpIntValue(key, value)
		if err == nil && (v < 0 || v > math.MaxInt) {
			err = fmt.Errorf("%s is %d, want at least 0", key, v)
		}
		*n = int(v)
		return err
	}
	switch key {
	case otlpRequestID:
		t.e.RequestID, err = otlpStringValue(key, value)
		t.hasID = err == nil
	case otlpInput:
		t.hasTokens[0] = true
		err = count(&t.e.PromptTokens)
	case otlpOutput:
		t.hasTokens[1] = true
		err = count(&t.e.OutputTokens)
	case otlpCached:
		d.HasCached = true
		err = count(&d.CachedTokens)
	case otlpClass:
		d.Class, err = otlpStringValue(key, value)
	case otlpRoute:
		d.Route, err = otlpStringValue(key, value)
	case otlpTokens[0]:
		d.ServerTokens, err = otlpInts(key, value)
	case otlpTokens[1]:
		d.ClientTokens, err = otlpInts(key, value)
	default:
		if i := slices.Index(otlpDurations[:], key); i >= 0 {
			var n int64
			n, err = otlpIntValue(key, value)
			*d.durations()[i] = time.Duration(n)
		}
	}
	return err
}

// phase takes the instants at both ends of a phase.
func (t *otlpTrace) phase(p int, start, end sim.Time) error {
	if t.phases[p] {
		return fmt.Errorf("phase %s stands twice", phaseNames[p])
	}
	t.phases[p] = true
	if err := t.known(p, start); err != nil {
		return err
	}
	return t.known(p+1, end)
}

// known takes an instant, which neighbouring phases must agree on.
func (t *otlpTrace) known(i int, at sim.Time) error {
	known := t.e.instants()[i]
	if *known != Unknown && *known != at {
		return fmt.Errorf("%s is %d ns away from where another span or event has it", instantName(i), at-*known)
	}
	*known = at
	return nil
}

// entry is the valid entry of a trace.
func (t *otlpTrace) entry(partial bool) (Entry, error) {
	switch {
	case !t.hasID:
		return Entry{}, fmt.Errorf("span %s lacks %s", t.root, otlpRequestID)
	case !t.hasTokens[0]:
		return Entry{}, fmt.Errorf("it lacks %s", otlpInput)
	case !t.hasTokens[1]:
		return Entry{}, fmt.Errorf("it lacks %s", otlpOutput)
	}
	if err := t.e.validate(partial); err != nil {
		return Entry{}, err
	}
	if t.e.ClientSend != Unknown && t.e.ClientSend != t.start || t.e.LastTokenClient != Unknown && t.e.LastTokenClient != t.end {
		return Entry{}, fmt.Errorf("its parent span %s is not as long as its phases", t.root)
	}
	return t.e, nil
}
