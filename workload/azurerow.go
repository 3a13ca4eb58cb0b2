package workload

import (
	"bytes"
	"fmt"
	"io"
	"strings"
)

// azureRow is a data row.
type azureRow struct {
	index  int    // among the data rows, from 0
	line   int    // of the file, from 1
	at     int64  // Unix ns
	stamp  []byte // the timestamp as written, valid during the call
	prompt int
	output int
	images int
}

// azureColumns are the positions of the columns; NumImages may be -1.
type azureColumns struct {
	n                                 int
	timestamp, prompt, output, images int
}

func azureHeader(l *lines) (azureColumns, error) {
	line, err := l.next()
	if err != nil {
		if err == io.EOF { // nothing but a byte order mark, or an empty gzip member
			return azureColumns{}, fmt.Errorf("%s: the file is empty", l.name)
		}
		return azureColumns{}, err
	}
	fields, err := splitCSV(nil, line)
	if err != nil {
		return azureColumns{}, l.errorf("%w", err)
	}
	c := azureColumns{n: len(fields), timestamp: -1, prompt: -1, output: -1, images: -1}
	names := map[string]*int{
		"TIMESTAMP": &c.timestamp, "ContextTokens": &c.prompt, "GeneratedTokens": &c.output, "NumImages": &c.images,
	}
	for i, f := range fields {
		at, ok := names[string(bytes.TrimSpace(f))]
		if !ok {
			continue
		}
		if *at >= 0 {
			return c, l.errorf("the header names %s twice", f)
		}
		*at = i
	}
	if c.timestamp < 0 || c.prompt < 0 || c.output < 0 {
		return c, l.errorf("the header is %q, want the columns TIMESTAMP, ContextTokens and GeneratedTokens (NumImages may be there)",
			strings.ToValidUTF8(string(line[:min(len(line), 200)]), "?"))
	}
	return c, nil
}

// parse reads the columns of a row.
func (c *azureColumns) parse(l *lines, fields [][]byte) (azureRow, error) {
	if len(fields) != c.n {
		return azureRow{}, l.errorf("the row has %d fields, the header %d", len(fields), c.n)
	}
	r := azureRow{line: l.number, stamp: bytes.TrimSpace(fields[c.timestamp])}
	var err error
	if r.at, err = parseTimestamp(r.stamp); err != nil {
		return r, l.errorf("TIMESTAMP %q: %w", r.stamp, err)
	}
	if r.prompt, err = parseCount(fields[c.prompt]); err != nil {
		return r, l.errorf("ContextTokens %q: %w", fields[c.prompt], err)
	}
	if r.output, err = parseCount(fields[c.output]); err != nil {
		return r, l.errorf("GeneratedTokens %q: %w", fields[c.output], err)
	}
	if c.images < 0 {
		return r, nil
	}
	if r.images, err = parseCount(fields[c.images]); err != nil {
		return r, l.errorf("NumImages %q: %w", fields[c.images], err)
	}
	return r, nil
}
