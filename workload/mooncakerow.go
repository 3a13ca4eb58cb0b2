package workload

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
)

// mooncakeRow is a row of a recording of Mooncake.
type mooncakeRow struct {
	index  int    // among the rows, from 0
	line   int    // of the file, from 1
	at     int64  // timestamp, ns
	stamp  []byte // the timestamp as written, valid during the call
	prompt int
	output int
	ids    []uint64 // one for each block, also for a last one that is not full
}

// mooncakeKeys are the keys that a row must have.
var mooncakeKeys = [...]string{"timestamp", "input_length", "output_length", "hash_ids"}

// parse reads a row. Index and line stay.
func (r *mooncakeRow) parse(line []byte, block int) error {
	var seen [len(mooncakeKeys)]bool
	err := members(line, func(key, value []byte) error {
		for i, name := range mooncakeKeys {
			if string(key) != name {
				continue
			}
			if seen[i] {
				return fmt.Errorf("the row has %s twice", name)
			}
			seen[i] = true
			return r.set(name, value)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, name := range mooncakeKeys {
		if !seen[i] {
			return fmt.Errorf("the row has no %s", name)
		}
	}
	blocks := r.prompt / block
	if r.prompt%block > 0 {
		blocks++
	}
	if len(r.ids) != blocks {
		return fmt.Errorf("hash_ids has %d ids, input_length %d makes %d blocks of %d tokens", len(r.ids), r.prompt, blocks, block)
	}
	return nil
}

// set reads the value of a key.
func (r *mooncakeRow) set(name string, value []byte) (err error) {
	switch name {
	case "timestamp":
		r.stamp = value
		r.at, err = parseMillis(value)
	case "input_length":
		r.prompt, err = parseCount(value)
	case "output_length":
		r.output, err = parseCount(value)
	case "hash_ids":
		r.ids, err = parseIDs(r.ids[:0], value)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", name, shorten(value), err)
	}
	return nil
}

var (
	errMillis      = errors.New("not a number of milliseconds, at least 0")
	errMillisRange = errors.New("more than 292 years in milliseconds")
	errIDs         = errors.New("not a list of whole numbers from 0 to 18446744073709551615")
)

// parseMillis returns nanoseconds, rounded to the nearest.
func parseMillis(b []byte) (int64, error) {
	if len(b) == 0 || b[0]-'0' > 9 { // valid JSON, so else a number
		return 0, errMillis
	}
	if bytes.ContainsAny(b, "eE") {
		ms, err := strconv.ParseFloat(string(b), 64)
		if ns := math.Round(ms * 1e6); err == nil && ns < math.MaxInt64 {
			return int64(ns), nil
		}
		return 0, errMillisRange
	}
	whole, fraction, _ := bytes.Cut(b, []byte("."))
	ms, ok := parseWhole(whole)
	if !ok || ms >= math.MaxInt64/1_000_000 {
		return 0, errMillisRange
	}
	ns := int64(ms)
	for i := range 6 {
		ns *= 10
		if i < len(fraction) {
			ns += int64(fraction[i] - '0')
		}
	}
	if len(fraction) > 6 && fraction[6] >= '5' {
		ns++
	}
	return ns, nil
}

// parseIDs appends the elements of a JSON array to dst.
func parseIDs(dst []uint64, list []byte) ([]uint64, error) {
	if list[0] != '[' {
		return dst, errIDs
	}
	rest := trimJSON(list[1:])
	for rest[0] != ']' {
		var element []byte
		element, rest = cutJSON(rest)
		id, ok := parseWhole(element)
		if !ok {
			return dst, fmt.Errorf("element %d is %s: %w", len(dst), shorten(element), errIDs)
		}
		dst = append(dst, id)
		if rest[0] == ',' {
			rest = trimJSON(rest[1:])
		}
	}
	return dst, nil
}

// parseWhole parses a number written with digits only.
func parseWhole(b []byte) (n uint64, ok bool) {
	for _, c := range b {
		d := uint64(c - '0')
		if d > 9 || n > (math.MaxUint64-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	return n, len(b) > 0
}
