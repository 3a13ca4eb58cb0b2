package workload

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"time"
)

// parseInstant returns the nanoseconds of a timestamp: a number as parseDuration
// reads it, or a date as parseTimestamp does.
func parseInstant(b []byte, unit time.Duration) (int64, error) {
	if date := bytes.TrimSpace(unquoted(b)); len(date) > 4 && date[4] == '-' {
		return parseTimestamp(date)
	}
	return parseDuration(b, unit)
}

// parseDuration returns the nanoseconds of a number of units, at least 0, in
// quotes or not, rounded to the nearest. The unit is one of those of units.
func parseDuration(b []byte, unit time.Duration) (int64, error) {
	b = bytes.TrimSpace(unquoted(b))
	if len(b) == 0 || b[0]-'0' > 9 {
		return 0, fmt.Errorf("not a number of %s, at least 0", units[unit])
	}
	if bytes.ContainsAny(b, "eE") {
		v, err := strconv.ParseFloat(string(b), 64)
		ns := math.Round(v * float64(unit))
		switch {
		case err == nil && ns < math.MaxInt64:
			return int64(ns), nil
		case math.IsInf(v, 0) || err == nil:
			return 0, tooLate(unit)
		}
		return 0, fmt.Errorf("not a number of %s, at least 0", units[unit])
	}
	whole, fraction, point := bytes.Cut(b, []byte("."))
	if !allDigits(whole) || point && !allDigits(fraction) {
		return 0, fmt.Errorf("not a number of %s, at least 0", units[unit])
	}
	n, ok := parseWhole(whole)
	if !ok || n >= uint64(math.MaxInt64/unit) {
		return 0, tooLate(unit)
	}
	ns := int64(n) * int64(unit)
	place := int64(unit)
	for _, c := range fraction {
		if place == 1 { // the first digit behind the nanoseconds
			if c >= '5' {
				ns++
			}
			break
		}
		place /= 10
		ns += int64(c-'0') * place
	}
	return ns, nil
}

// units are the units that timestamps come in.
var units = map[time.Duration]string{
	time.Second: "seconds", time.Millisecond: "milliseconds", time.Microsecond: "microseconds", time.Nanosecond: "nanoseconds",
}

// checkUnit accepts 0, which means the unit of the format, and those of units.
func checkUnit(field string, unit time.Duration) error {
	if unit != 0 && units[unit] == "" {
		return fmt.Errorf("%s is %v, want 1s, 1ms, 1µs or 1ns", field, unit)
	}
	return nil
}

func tooLate(unit time.Duration) error { return fmt.Errorf("more than 292 years in %s", units[unit]) }

// unquoted returns the content of a JSON string without escapes, and anything
// else as it is.
func unquoted(b []byte) []byte {
	if len(b) >= 2 && b[0] == '"' && b[len(b)-1] == '"' {
		return b[1 : len(b)-1]
	}
	return b
}

// parseCount parses a number of tokens or images, in quotes or not.
func parseCount(b []byte) (int, error) {
	b = bytes.TrimSpace(unquoted(bytes.TrimSpace(b)))
	if len(b) == 0 || len(b) > len("2147483647") {
		return 0, errCount
	}
	n := digits(b)
	if n < 0 || n > maxTokens {
		return 0, errCount
	}
	return n, nil
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

func allDigits(b []byte) bool {
	for _, c := range b {
		if c-'0' > 9 {
			return false
		}
	}
	return len(b) > 0
}
