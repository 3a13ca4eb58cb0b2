package main

import (
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
)

// row is one line of a CSV file, read by column name. The first bad value is
// kept and returned by readCSV.
type row struct {
	file    string
	line    int
	columns map[string]int
	fields  []string
	err     error
}

// readCSV calls each for every row of a file, which may be compressed. It
// names the columns that must be there.
func readCSV(path string, need []string, each func(*row)) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	var in io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		z, err := gzip.NewReader(f)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		in = z
	}
	r := csv.NewReader(in)
	r.ReuseRecord = true
	header, err := r.Read()
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	line := row{file: path, columns: map[string]int{}}
	for i, name := range header {
		line.columns[name] = i
	}
	for _, name := range need {
		if _, ok := line.columns[name]; !ok {
			return fmt.Errorf("%s: no column %q", path, name)
		}
	}
	for {
		line.fields, err = r.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		line.line, _ = r.FieldPos(0)
		if each(&line); line.err != nil {
			return line.err
		}
	}
}

// has reports whether the file has a column.
func (r *row) has(column string) bool {
	_, ok := r.columns[column]
	return ok
}

// text returns a field, "" if the file has no such column.
func (r *row) text(column string) string {
	i, ok := r.columns[column]
	if !ok {
		return ""
	}
	return r.fields[i]
}

// number returns a field as a finite number. A column that the file does not
// have counts as 0.
func (r *row) number(column string) float64 {
	i, ok := r.columns[column]
	if !ok {
		return 0
	}
	x, err := strconv.ParseFloat(r.fields[i], 64)
	if (err != nil || math.IsNaN(x) || math.IsInf(x, 0)) && r.err == nil {
		r.err = fmt.Errorf("%s:%d: %s is %q, not a number", r.file, r.line, column, r.fields[i])
	}
	return x
}

// count is number for whole numbers.
func (r *row) count(column string) int {
	x := r.number(column)
	if n := int(x); float64(n) == x {
		return n
	}
	if r.err == nil {
		r.err = fmt.Errorf("%s:%d: %s is %v, not a whole number", r.file, r.line, column, x)
	}
	return 0
}

// at says where the row stands.
func (r *row) at() string { return fmt.Sprintf("%s:%d", r.file, r.line) }
