package workload

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"
)

// readRates reads a file of rates, which has no header.
func readRates(file string, in io.Reader) ([]ServeGenRate, error) {
	l, err := newLines(file, in, maxLine)
	if err != nil {
		return nil, err
	}
	var windows []ServeGenRate
	var fields [][]byte
	err = l.each(func(line []byte) (bool, error) {
		if fields, err = splitCSV(fields[:0], line); err != nil {
			return false, l.errorf("%w", err)
		}
		w, err := parseWindow(fields)
		if err != nil {
			return false, l.errorf("%w", err)
		}
		if n := len(windows); n > 0 && w.Start <= windows[n-1].Start {
			return false, l.errorf("window start %s is not after the one before, %v s", shorten(fields[0]), windows[n-1].Start.Seconds())
		}
		windows = append(windows, w)
		return true, nil
	})
	if err == nil && len(windows) == 0 {
		return nil, fmt.Errorf("%s: no rows", file)
	}
	return windows, err
}

// rateFields are the fields of a row of rates, in its order.
var rateFields = [...]string{"window start", "rate", "cv", "pattern", "shape", "scale"}

func parseWindow(fields [][]byte) (w ServeGenRate, err error) {
	if len(fields) != len(rateFields) {
		return w, fmt.Errorf("the row has %d fields, want %d", len(fields), len(rateFields))
	}
	start, err := parseDuration(fields[0], time.Second)
	if err != nil {
		return w, fmt.Errorf("%s %q: %w", rateFields[0], shorten(fields[0]), err)
	}
	w.Start, w.Pattern = time.Duration(start), string(bytes.TrimSpace(fields[3]))
	for _, f := range []struct {
		at    int
		value *float64
	}{{1, &w.Rate}, {2, &w.CV}, {4, &w.Shape}, {5, &w.Scale}} {
		if *f.value, err = parseShare(fields[f.at]); err != nil {
			return w, fmt.Errorf("%s %q: %w", rateFields[f.at], shorten(fields[f.at]), err)
		}
	}
	switch w.Pattern {
	case "":
		if w.Rate > 0 {
			return w, fmt.Errorf("rate %q without a pattern", shorten(fields[1]))
		}
	case "Gamma", "Weibull":
		if w.Shape == 0 || w.Scale == 0 {
			return w, fmt.Errorf("pattern %s with shape %q and scale %q, want them above 0", w.Pattern, shorten(fields[4]), shorten(fields[5]))
		}
	default:
		return w, fmt.Errorf("pattern %q, want Gamma, Weibull or nothing", shorten(fields[3]))
	}
	return w, nil
}

var errNotFinite = errors.New("not a finite number, at least 0")

// parseShare parses a finite number, at least 0.
func parseShare(b []byte) (float64, error) {
	v, err := strconv.ParseFloat(string(bytes.TrimSpace(b)), 64)
	if err != nil || !(v >= 0) || math.IsInf(v, 0) {
		return 0, errNotFinite
	}
	return v, nil
}

// maxLengthFile is the longest file of lengths, in bytes, which is held.
const maxLengthFile = 256 << 20

// readLengths reads a file of lengths: an object of windows, by start, each an
// object of fields, each a Python dictionary in a string.
func readLengths(file string, in io.Reader) ([]ServeGenLengthWindow, error) {
	in, err := unzip(file, in)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(in, maxLengthFile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", file, err)
	case len(data) > maxLengthFile:
		return nil, fmt.Errorf("%s: the file is longer than %d bytes", file, maxLengthFile)
	}
	var windows []ServeGenLengthWindow
	err = members(data, func(key, value []byte) error {
		start, err := parseDuration(key, time.Second)
		if err != nil {
			return fmt.Errorf("window %q: %w", shorten(key), err)
		}
		w := ServeGenLengthWindow{Start: time.Duration(start)}
		if n := len(windows); n > 0 && w.Start <= windows[n-1].Start {
			return fmt.Errorf("window %q is not after the one before, %v s", shorten(key), windows[n-1].Start.Seconds())
		}
		if w.Fields, err = parseFields(value); err != nil {
			return fmt.Errorf("window %q: %w", shorten(key), err)
		}
		windows = append(windows, w)
		return nil
	})
	switch {
	case errors.Is(err, errNoObject):
		return nil, fmt.Errorf("%s: not a JSON object of windows", file)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", file, err)
	case len(windows) == 0:
		return nil, fmt.Errorf("%s: no windows", file)
	}
	return windows, nil
}

func parseFields(object []byte) (fields []ServeGenField, err error) {
	err = members(object, func(key, value []byte) error {
		for _, f := range fields {
			if f.Name == string(key) {
				return fmt.Errorf("%s is there twice", f.Name)
			}
		}
		if value[0] != '"' {
			return fmt.Errorf("%s %s: not a dictionary in a string", shorten(key), shorten(value))
		}
		values, err := parseDictionary(unquote(value))
		if err != nil {
			return fmt.Errorf("%s: %w", shorten(key), err)
		}
		fields = append(fields, ServeGenField{Name: string(key), Values: values})
		return nil
	})
	if errors.Is(err, errNoObject) {
		return nil, errors.New("not an object of fields")
	}
	return fields, err
}

// parseDictionary parses a Python dictionary of numbers: "{224: 0.0003, …}".
func parseDictionary(b []byte) (values []ServeGenValue, err error) {
	b = bytes.TrimSpace(b)
	if len(b) < 2 || b[0] != '{' || b[len(b)-1] != '}' {
		return nil, fmt.Errorf("%q is not a dictionary {value: share, …}", shorten(b))
	}
	seen := map[float64]bool{}
	for rest := bytes.TrimSpace(b[1 : len(b)-1]); len(rest) > 0; rest = bytes.TrimSpace(rest) {
		var item []byte
		item, rest, _ = bytes.Cut(rest, []byte(","))
		key, share, ok := bytes.Cut(item, []byte(":"))
		if !ok {
			return nil, fmt.Errorf("%q is not value: share", shorten(item))
		}
		var v ServeGenValue
		if v.Value, err = parseShare(key); err != nil {
			return nil, fmt.Errorf("value %q: %w", shorten(key), err)
		}
		if v.Share, err = parseShare(share); err != nil {
			return nil, fmt.Errorf("share %q of %s: %w", shorten(share), shorten(key), err)
		}
		if seen[v.Value] {
			return nil, fmt.Errorf("value %s is there twice", shorten(key))
		}
		seen[v.Value] = true
		values = append(values, v)
	}
	return values, nil
}
