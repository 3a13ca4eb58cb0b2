package trace

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"unicode/utf8"
)

// ErrEmpty is the error of a file that holds no record.
var ErrEmpty = errors.New("at least one trace is required")

// Read yields the records of a file in its order: Reader without the details.
func Read(r io.Reader, name string) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for e, err := range (Reader{In: r, Name: name}).Entries() {
			if !yield(e.Record, err) {
				return
			}
		}
	}
}

// Reader reads a file.
type Reader struct {
	In   io.Reader
	Name string // what errors call the file
	// Partial accepts records that lack instants, which are then Unknown. What
	// they have must be in order.
	Partial bool
}

// Entries yields the lines of the file in its order, or one error, the last,
// which names the file, the line and, where there is one, the field. It reads
// In once.
//
// Lines of white space are skipped and counted. A line must be one JSON object
// in UTF-8 with every field of Record and no key twice. Ids are strings, none
// twice in a file; token counts are written as integers; times are numbers.
// Details must be well formed where details_version stands with them.
// Duplicates are found by holding every id: up to 60 bytes a record besides
// the id itself.
func (r Reader) Entries() iter.Seq2[Entry, error] {
	return records(r.In, r.Name, ErrEmpty, func(e *Entry) string { return e.RequestID }, func(dst []Entry, line []byte) ([]Entry, error) {
		e, err := parse(line, r.Partial)
		return append(dst, e), err
	})
}

// records yields what parse appends for each line of a file, whose ids must
// differ. A file without any is empty.
func records[T any](r io.Reader, name string, empty error, id func(*T) string, parse func(dst []T, line []byte) ([]T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		seen := map[string]int{} // line of each id
		in := newLines(r)
		var found []T
		for {
			line, err := in.next()
			switch {
			case err == io.EOF && len(seen) == 0:
				yield(none, fmt.Errorf("%s: %w", name, empty))
				return
			case err == io.EOF:
				return
			case err == nil && len(bytes.TrimSpace(line)) == 0:
				continue
			}
			if found = found[:0]; err == nil {
				found, err = parse(found, line)
			}
			for i := range found {
				if err != nil {
					break
				}
				key := id(&found[i])
				if first, ok := seen[key]; ok {
					err = fmt.Errorf("request_id %q is that of line %d", key, first)
					break
				}
				seen[key] = in.number
				if !yield(found[i], nil) {
					return
				}
			}
			if err != nil {
				yield(none, fmt.Errorf("%s:%d: %w", name, in.number, err))
				return
			}
		}
	}
}

// parse reads one line. It checks the text first, then that no field is
// missing, then each field in turn, then the whole.
func parse(line []byte, partial bool) (Entry, error) {
	var values [fields][]byte
	var details [detailFields][]byte
	err := members(line, func(key []byte) *[]byte {
		if i := slices.Index(fieldNames[:], string(key)); i >= 0 {
			return &values[i]
		}
		if i := slices.Index(detailNames[:], string(key)); i >= 0 {
			return &details[i]
		}
		return nil
	})
	if err != nil {
		return Entry{}, err
	}
	var missing []string
	for i, v := range values {
		if v == nil && !(partial && i >= firstOf) {
			missing = append(missing, fieldNames[i])
		}
	}
	if missing != nil {
		return Entry{}, missingError(missing)
	}
	return assemble(values, details, partial)
}

// members reads the members of the object on a line, in UTF-8 and with no key
// twice. place says where the text of a field goes, or nil where it is left out.
func members(line []byte, place func(key []byte) *[]byte) error {
	if at := invalidByte(line); at >= 0 {
		return fmt.Errorf("byte %d of the line is not UTF-8", at+1)
	}
	var extra map[string]bool
	return walk(line, func(key, value []byte) error {
		known := place(key)
		if twice := known == nil && extra[string(key)] || known != nil && *known != nil; twice {
			return fmt.Errorf("field %s stands twice", shorten(key))
		}
		if known != nil {
			*known = value
			return nil
		}
		if extra == nil {
			extra = map[string]bool{}
		}
		extra[string(key)] = true
		return nil
	})
}

// invalidByte returns the index of the first byte that is not UTF-8, or -1.
func invalidByte(line []byte) int {
	for i := 0; i < len(line); {
		r, size := utf8.DecodeRune(line[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return -1
}

// assemble makes a valid entry of the texts of its fields.
func assemble(values [fields][]byte, details [detailFields][]byte, partial bool) (e Entry, err error) {
	if e.RequestID, err = parseString(fieldNames[0], values[0]); err != nil {
		return Entry{}, err
	}
	for i, count := range []*int{&e.PromptTokens, &e.OutputTokens} {
		if *count, err = strconv.Atoi(string(values[1+i])); err != nil { // no point, no exponent
			return Entry{}, fmt.Errorf("%s is %s, want an integer below 2⁶³", fieldNames[1+i], shorten(values[1+i]))
		}
	}
	for i, t := range e.instants() {
		text := values[firstOf+i]
		if partial && (text == nil || string(text) == "null") {
			*t = Unknown
			continue
		}
		if *t, err = parseInstant(fieldNames[firstOf+i], text); err != nil {
			return Entry{}, err
		}
	}
	if err := e.Record.validate(partial); err != nil {
		return e, err
	}
	if details[0] == nil {
		return e, nil
	}
	if e.Details, err = parseDetails(details); err != nil {
		return e, err
	}
	return e, e.validateDetails()
}
