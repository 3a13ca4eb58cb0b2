package trace

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"servesim/sim"
)

// Label is the truth about one request, known from how it was made and from the
// engine. It stands in a file of its own, so that a profiler can be tested
// blind, or in the lines of the trace; [ReadLabels] reads both.
type Label struct {
	RequestID string
	// Causes say what was done to the request, none twice: "causes". None is a
	// healthy one.
	Causes []string
	// The phases with the most time up to the first token and up to the last, as
	// Record.Dominant has them for the unbroken record: "ttft_phase", "e2e_phase".
	TTFTPhase, E2EPhase Phase
	// Ledger says where the engine's time went, where HasLedger says that it is
	// known: "ledger_ns", an object of the parts that are not 0, and
	// "late_transfer".
	Ledger    sim.Ledger
	HasLedger bool
}

// LabelVersion is the version of the fields of a Label: "label_version".
const LabelVersion = 1

var labelNames = [...]string{"request_id", "label_version", "causes", "ttft_phase", "e2e_phase", "ledger_ns", "late_transfer"}

const (
	labelFields    = len(labelNames)
	labelMandatory = 5 // so many of them stand in every label
)

// LabelFromEvent returns the label of a Finish event, with the ledger in a run
// with sim.Config.Ledgers. Its id is that of [FromEvent].
func LabelFromEvent(e sim.Event, causes ...string) Label {
	r := FromEvent(e)
	l := label(&e, &r, causes)
	l.RequestID = r.RequestID
	return l
}

// label is the label of a Finish event and its record, without an id.
func label(e *sim.Event, r *Record, causes []string) Label {
	l := Label{Causes: causes, Ledger: e.Ledger()}
	l.HasLedger = l.Ledger != sim.Ledger{}
	l.TTFTPhase, l.E2EPhase = r.Dominant()
	return l
}

// Validate reports the first fault of the label. Parts of a ledger are not
// negative, but for the interference.
func (l *Label) Validate() error {
	if !utf8.ValidString(l.RequestID) {
		return fmt.Errorf("request_id is %q, not UTF-8", l.RequestID)
	}
	for i, c := range l.Causes {
		switch {
		case c == "" || !utf8.ValidString(c):
			return fmt.Errorf("causes: %q, want a name in UTF-8", c)
		case slices.Contains(l.Causes[:i], c):
			return fmt.Errorf("causes: %q stands twice", c)
		}
	}
	switch {
	case l.TTFTPhase >= Stream:
		return fmt.Errorf("ttft_phase is %v, want one before the first token", l.TTFTPhase)
	case l.E2EPhase > Stream:
		return fmt.Errorf("e2e_phase is %v", l.E2EPhase)
	case !l.HasLedger && l.Ledger != sim.Ledger{}:
		return errors.New("ledger_ns is there but not marked as known")
	}
	var sum sim.Time
	for i, part := range ledgerParts(&l.Ledger) {
		if *part < 0 && part != &l.Ledger.Stream.Interference {
			return fmt.Errorf("ledger_ns: %s is %d, want at least 0", ledgerNames[i], *part)
		}
		if sum += sim.Time(*part); !inRange(sim.Time(*part)) || !inRange(sum) {
			return fmt.Errorf("ledger_ns: %s is %d, which makes more than 146 years", ledgerNames[i], *part)
		}
	}
	return nil
}

// of reports why the label cannot stand beside an entry.
func (l *Label) of(e *Entry) error {
	if l.RequestID != e.RequestID {
		return fmt.Errorf("trace: request %q has the label of %q", e.RequestID, l.RequestID)
	}
	if err := l.Validate(); err != nil {
		return fmt.Errorf("trace: request %q: %w", l.RequestID, err)
	}
	return nil
}

// AppendJSON appends the label as one line of a file of labels, without the
// line end. It does not validate.
func (l *Label) AppendJSON(dst []byte) []byte {
	dst = appendString(append(dst, `{"request_id":`...), l.RequestID)
	return append(l.append(dst), '}')
}

// append appends the fields behind the request_id.
func (l *Label) append(dst []byte) []byte {
	dst = strconv.AppendInt(append(dst, `,"label_version":`...), LabelVersion, 10)
	dst = append(dst, `,"causes":[`...)
	for i, c := range l.Causes {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, c)
	}
	dst = appendString(append(dst, `],"ttft_phase":`...), l.TTFTPhase.String())
	dst = appendString(append(dst, `,"e2e_phase":`...), l.E2EPhase.String())
	if !l.HasLedger {
		return dst
	}
	dst = append(dst, `,"ledger_ns":{`...)
	first := true
	for i, part := range ledgerParts(&l.Ledger) {
		if *part == 0 {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(append(append(dst, '"'), ledgerNames[i]...), `":`...)
		dst = strconv.AppendInt(dst, int64(*part), 10)
	}
	dst = append(dst, '}')
	if l.Ledger.LateTransfer {
		dst = append(dst, `,"late_transfer":true`...)
	}
	return dst
}

// LabelWriter is a sim.Observer that writes one label for every request that
// completes, in order of completion: the lines of a [Writer] and of a
// LabelWriter of the same run pair up. Call Flush at the end.
type LabelWriter struct {
	W io.Writer
	// Causes says what was done to the request of a Finish event; nil is a run in
	// which nothing was done to any. It is called once a request, and the list
	// is not kept.
	Causes func(e sim.Event) []string

	buffered
}

// Observe writes the label of a Finish event and ignores the others. A fault is
// kept for Flush, and nothing is written after it.
func (w *LabelWriter) Observe(e sim.Event) {
	if e.Kind != sim.Finish || w.err != nil {
		return
	}
	r := timeline(&e)
	l, err := causedLabel(&e, &r, w.Causes)
	if err != nil {
		w.err = fmt.Errorf("trace: request %d: %w", e.Serial, err)
		return
	}
	w.buf = strconv.AppendInt(append(w.buf, `{"request_id":"`...), e.Serial, 10)
	w.buf = append(l.append(append(w.buf, '"')), '}')
	w.endLine(w.W)
}

// causedLabel is the valid label of a Finish event, without an id.
func causedLabel(e *sim.Event, r *Record, causes func(sim.Event) []string) (l Label, err error) {
	if r.FirstTokenClient == Unknown {
		return l, errProxyCounts
	}
	var list []string
	if causes != nil {
		list = causes(*e)
	}
	l = label(e, r, list)
	return l, l.Validate()
}

// Write writes a label from elsewhere. It returns the error of Flush, or says
// why the label is not valid; a label that is not valid leaves the file as it
// was.
func (w *LabelWriter) Write(l Label) error {
	if w.err != nil {
		return w.err
	}
	if err := l.Validate(); err != nil {
		return fmt.Errorf("trace: request %q: %w", l.RequestID, err)
	}
	w.buf = l.AppendJSON(w.buf)
	w.endLine(w.W)
	return w.err
}

// Flush writes what is buffered. It returns the first fault since the start.
func (w *LabelWriter) Flush() error {
	w.flush(w.W)
	return w.err
}

// WriteLabelled writes an entry, whatever it holds, and its label on the same
// line. Readers of traces leave the label out.
func (w *Writer) WriteLabelled(e Entry, l Label) error {
	if w.err != nil {
		return w.err
	}
	if err := l.of(&e); err != nil {
		return err
	}
	w.buf = e.AppendJSON(w.buf)
	w.buf = append(l.append(w.buf[:len(w.buf)-1]), '}')
	w.endLine(w.W)
	return w.err
}

var errNoLabel = errors.New("at least one label is required")

// ReadLabels yields the labels of a file, or of the lines of a trace that
// carries them, in the order of the file. It ends at the first fault, with an
// error that names the file, the line and the field.
//
// Every line needs request_id, label_version, causes, ttft_phase and e2e_phase;
// ids are unique. Fields that are none of a label are left out.
func ReadLabels(r io.Reader, name string) iter.Seq2[Label, error] {
	return records(r, name, errNoLabel, func(l *Label) string { return l.RequestID }, func(dst []Label, line []byte) ([]Label, error) {
		l, err := parseLabel(line)
		return append(dst, l), err
	})
}

func parseLabel(line []byte) (l Label, err error) {
	var values [labelFields][]byte
	err = members(line, func(key []byte) *[]byte {
		if i := slices.Index(labelNames[:], string(key)); i >= 0 {
			return &values[i]
		}
		return nil
	})
	if err != nil {
		return Label{}, err
	}
	var missing []string
	for i, v := range values[:labelMandatory] {
		if v == nil {
			missing = append(missing, labelNames[i])
		}
	}
	switch {
	case missing != nil:
		return Label{}, missingError(missing)
	case string(values[1]) != strconv.Itoa(LabelVersion):
		return Label{}, fmt.Errorf("label_version is %s, want %d", shorten(values[1]), LabelVersion)
	}
	if l.RequestID, err = parseString(labelNames[0], values[0]); err != nil {
		return Label{}, err
	}
	if l.Causes, err = parseStrings(labelNames[2], values[2]); err != nil {
		return Label{}, err
	}
	for i, p := range []*Phase{&l.TTFTPhase, &l.E2EPhase} {
		if *p, err = parsePhase(labelNames[3+i], values[3+i]); err != nil {
			return Label{}, err
		}
	}
	l.HasLedger = values[5] != nil
	if l.HasLedger {
		if err := parseLedger(&l.Ledger, values[5]); err != nil {
			return Label{}, fmt.Errorf("ledger_ns: %w", err)
		}
	}
	if late := values[6]; late != nil {
		l.Ledger.LateTransfer = string(late) == "true"
		if !l.HasLedger || !l.Ledger.LateTransfer && string(late) != "false" {
			return Label{}, fmt.Errorf("late_transfer is %s, want true or false beside ledger_ns", shorten(late))
		}
	}
	return l, l.Validate()
}

func parseStrings(name string, text []byte) ([]string, error) {
	if text[0] != '[' {
		return nil, fmt.Errorf("%s is %s, want a list of strings", name, shorten(text))
	}
	var list []string
	o := object{data: text, at: 1}
	for o.peek() != ']' {
		s, err := parseString(name, o.extent())
		if err != nil {
			return nil, err
		}
		list = append(list, s)
		if o.peek() == ',' {
			o.at++
		}
	}
	return list, nil
}

func parsePhase(name string, text []byte) (Phase, error) {
	s, err := parseString(name, text)
	if err != nil {
		return 0, err
	}
	p := slices.Index(phaseNames[:], s)
	if p < 0 {
		return 0, fmt.Errorf("%s is %s, which is no phase", name, shorten([]byte(s)))
	}
	return Phase(p), nil
}

func parseLedger(l *sim.Ledger, text []byte) error {
	if text[0] != '{' {
		return fmt.Errorf("is %s, want an object", shorten(text))
	}
	var seen [len(ledgerNames)]bool
	parts := ledgerParts(l)
	return walk(text, func(key, value []byte) error {
		i := slices.Index(ledgerNames[:], string(key))
		switch {
		case i < 0:
			return fmt.Errorf("%s is no part of a ledger", shorten(key))
		case seen[i]:
			return fmt.Errorf("field %s stands twice", key)
		}
		seen[i] = true
		ns, err := strconv.ParseInt(string(value), 10, 64)
		if err != nil {
			return fmt.Errorf("%s is %s, want an integer below 2⁶³", key, shorten(value))
		}
		*parts[i] = time.Duration(ns)
		return nil
	})
}
