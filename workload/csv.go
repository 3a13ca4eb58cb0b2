package workload

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

var (
	errQuote = errors.New("a quoted field does not end with a quote and a comma")
	errCount = errors.New("not a whole number from 0 to 2147483647")
)

// csvColumn is one that a reader wants from a CSV file.
type csvColumn struct {
	name     string
	also     string // another name that it goes by, if not empty
	optional bool
	at       int // its position, -1 if it is not there
}

// table reads the rows of a CSV file by the names in its header. Columns that
// nobody wants are ignored, whatever they hold.
type table struct {
	columns []csvColumn
	fields  [][]byte // of the row
	width   int      // fields of the header
}

// readHeader reads the first line of a file.
func readHeader(l *lines, columns ...csvColumn) (*table, error) {
	line, err := l.next()
	if err == io.EOF { // nothing but a byte order mark, or an empty gzip member
		return nil, fmt.Errorf("%s: the file is empty", l.name)
	}
	if err != nil {
		return nil, err
	}
	names, err := splitCSV(nil, line)
	if err != nil {
		return nil, l.errorf("%w", err)
	}
	t := &table{columns: columns, width: len(names), fields: make([][]byte, 0, len(names))}
	for i := range columns {
		columns[i].at = -1
	}
	for i, name := range names {
		name = bytes.TrimSpace(name)
		for j := range columns {
			c := &columns[j]
			if string(name) != c.name && (c.also == "" || string(name) != c.also) {
				continue
			}
			if c.at >= 0 {
				return nil, l.errorf("the header names %s twice", name)
			}
			c.at = i
		}
	}
	for _, c := range columns {
		if c.at < 0 && !c.optional {
			return nil, l.errorf("the header is %q, want %s", strings.ToValidUTF8(string(line[:min(len(line), 200)]), "?"), wanted(columns))
		}
	}
	return t, nil
}

// wanted lists columns for an error.
func wanted(columns []csvColumn) string {
	var must, may []string
	for _, c := range columns {
		if c.optional {
			may = append(may, c.name)
		} else {
			must = append(must, c.name)
		}
	}
	s := "the columns " + strings.Join(must[:len(must)-1], ", ") + " and " + must[len(must)-1]
	if may != nil {
		s += " (" + strings.Join(may, ", ") + " may be there)"
	}
	return s
}

// split reads the fields of a row, valid until the next line.
func (t *table) split(line []byte) (err error) {
	if t.fields, err = splitCSV(t.fields[:0], line); err != nil {
		return err
	}
	if len(t.fields) != t.width {
		return fmt.Errorf("the row has %d fields, the header %d", len(t.fields), t.width)
	}
	return nil
}

// has reports whether the file has column i.
func (t *table) has(i int) bool { return t.columns[i].at >= 0 }

// field returns column i of the row, which must be there, without blanks
// around it.
func (t *table) field(i int) []byte { return bytes.TrimSpace(t.fields[t.columns[i].at]) }

// count parses column i of the row.
func (t *table) count(i int) (int, error) {
	n, err := parseCount(t.field(i))
	return n, t.fault(i, err)
}

// fault names column i of the row and its value in an error, if it is one.
func (t *table) fault(i int, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %q: %w", t.columns[i].name, shorten(t.field(i)), err)
}

// splitCSV appends the fields of a line to dst. They point into the line. A
// field may stand in quotes, and then hold commas; quotes inside quotes and
// fields over several lines are errors.
func splitCSV(dst [][]byte, line []byte) ([][]byte, error) {
	for {
		if len(line) > 0 && line[0] == '"' {
			end := bytes.IndexByte(line[1:], '"') + 1
			if end == 0 || end+1 < len(line) && line[end+1] != ',' {
				return nil, errQuote
			}
			dst = append(dst, line[1:end])
			if end+1 == len(line) {
				return dst, nil
			}
			line = line[end+2:]
			continue
		}
		end := bytes.IndexByte(line, ',')
		if end < 0 {
			return append(dst, line), nil
		}
		dst = append(dst, line[:end])
		line = line[end+1:]
	}
}
