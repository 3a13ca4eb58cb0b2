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

// Read yields the records of a file in its order, or one error, the last,
// which names the file, the line and, where there is one, the field. It reads
// r once; name is what errors call it.
//
// Lines of white space are skipped and counted. A line must be one JSON object
// in UTF-8 with every field of Record and no key twice. Ids are strings, none
// twice in a file; token counts are written as integers; times are numbers.
// Duplicates are found by holding every id: up to 60 bytes a record besides
// the id itself.
func Read(r io.Reader, name string) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		seen := map[string]int{} // line of each id
		in := newLines(r)
		for {
			line, err := in.next()
			switch {
			case err == io.EOF && len(seen) == 0:
				yield(Record{}, fmt.Errorf("%s: %w", name, ErrEmpty))
				return
			case err == io.EOF:
				return
			case err == nil && len(bytes.TrimSpace(line)) == 0:
				continue
			}
			var record Record
			if err == nil {
				record, err = parse(line)
			}
			if err == nil {
				if first, ok := seen[record.RequestID]; ok {
					err = fmt.Errorf("request_id %q is that of line %d", record.RequestID, first)
				}
			}
			if err != nil {
				yield(Record{}, fmt.Errorf("%s:%d: %w", name, in.number, err))
				return
			}
			seen[record.RequestID] = in.number
			if !yield(record, nil) {
				return
			}
		}
	}
}

// parse reads one line. It checks the text first, then that no field is
// missing, then each field in turn, then the record.
func parse(line []byte) (Record, error) {
	if at := invalidByte(line); at >= 0 {
		return Record{}, fmt.Errorf("byte %d of the line is not UTF-8", at+1)
	}
	var values [fields][]byte
	var extra map[string]bool
	err := walk(line, func(key, value []byte) error {
		i := slices.Index(fieldNames[:], string(key))
		if twice := i < 0 && extra[string(key)] || i >= 0 && values[i] != nil; twice {
			return fmt.Errorf("field %s stands twice", shorten(key))
		}
		if i >= 0 {
			values[i] = value
			return nil
		}
		if extra == nil {
			extra = map[string]bool{}
		}
		extra[string(key)] = true
		return nil
	})
	if err != nil {
		return Record{}, err
	}
	var missing []string
	for i, v := range values {
		if v == nil {
			missing = append(missing, fieldNames[i])
		}
	}
	if missing != nil {
		return Record{}, missingError(missing)
	}
	return assemble(values)
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

// assemble makes a valid record of the texts of its fields.
func assemble(values [fields][]byte) (r Record, err error) {
	if values[0][0] != '"' {
		return Record{}, fmt.Errorf("request_id is %s, want a string", shorten(values[0]))
	}
	id, err := unquote(values[0])
	if err != nil {
		return Record{}, fmt.Errorf("request_id %w", err)
	}
	r.RequestID = string(id)
	for i, count := range []*int{&r.PromptTokens, &r.OutputTokens} {
		if *count, err = strconv.Atoi(string(values[1+i])); err != nil { // no point, no exponent
			return Record{}, fmt.Errorf("%s is %s, want an integer below 2⁶³", fieldNames[1+i], shorten(values[1+i]))
		}
	}
	for i, t := range r.instants() {
		name, text := fieldNames[firstOf+i], values[firstOf+i]
		if text[0] != '-' && (text[0] < '0' || text[0] > '9') {
			return Record{}, fmt.Errorf("%s is %s, want a number", name, shorten(text))
		}
		if *t, err = parseMillis(text); err != nil {
			return Record{}, fmt.Errorf("%s is %s, %w", name, shorten(text), err)
		}
	}
	return r, r.Validate()
}
