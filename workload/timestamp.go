package workload

import (
	"bytes"
	"errors"
	"time"
)

// parseTimestamp returns Unix nanoseconds. It accepts a date and a time of
// day, separated by a blank or T, with up to nine fractional digits, followed
// by Z, an offset, or nothing, which means UTC:
//
//	2023-11-16 18:17:03.9799600
//	2024-05-12 00:00:00.001163+00:00
//	2024-05-12 00:00:00+00:00
//	2024-10-15T12:00:00.269Z
//
// Digits beyond the nanosecond must be zero: a timestamp is exact or refused.
func parseTimestamp(b []byte) (int64, error) {
	if ns, ok := parseCommon(b); ok {
		return ns, nil
	}
	return parseRare(string(b))
}

// Seconds of the first and last full year that int64 nanoseconds reach.
const (
	minYear = 1678
	maxYear = 2261
)

// parseCommon parses the notations above without allocating. It leaves
// everything unusual, and every error, to parseRare.
func parseCommon(b []byte) (ns int64, ok bool) {
	if len(b) < len("2006-01-02 15:04:05") || b[4] != '-' || b[7] != '-' ||
		b[10] != ' ' && b[10] != 'T' || b[13] != ':' || b[16] != ':' {
		return 0, false
	}
	year := digits(b[0:4])
	month, day := digits(b[5:7]), digits(b[8:10])
	hour, minute, second := digits(b[11:13]), digits(b[14:16]), digits(b[17:19])
	if year < minYear || year > maxYear || month < 1 || month > 12 || day < 1 || day > 28 && day > daysIn(year, month) ||
		hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 59 {
		return 0, false
	}
	fraction, zone, ok := parseFraction(b[19:])
	if !ok {
		return 0, false
	}
	offset, ok := parseZone(zone)
	if !ok {
		return 0, false
	}
	seconds := unixDay(year, month, day)*86400 + int64(hour*3600+minute*60+second) - offset
	return seconds*1e9 + fraction, true
}

// parseFraction parses ".979" at the start of b, if it is there, and returns
// nanoseconds and what follows.
func parseFraction(b []byte) (ns int64, rest []byte, ok bool) {
	if len(b) == 0 || b[0] != '.' {
		return 0, b, true
	}
	n := 1
	for n < len(b) && b[n]-'0' <= 9 {
		if n <= 9 {
			ns = ns*10 + int64(b[n]-'0')
		} else if b[n] != '0' {
			return 0, nil, false
		}
		n++
	}
	for i := n; i <= 9; i++ {
		ns *= 10
	}
	return ns, b[n:], n > 1
}

// parseZone parses "", "Z" or "+01:00" and returns seconds east of Greenwich.
func parseZone(b []byte) (seconds int64, ok bool) {
	if len(b) == 0 || len(b) == 1 && b[0] == 'Z' {
		return 0, true
	}
	if len(b) != len("+01:00") || b[0] != '+' && b[0] != '-' || b[3] != ':' {
		return 0, false
	}
	hours, minutes := digits(b[1:3]), digits(b[4:6])
	if hours < 0 || hours > 23 || minutes < 0 || minutes > 59 {
		return 0, false
	}
	seconds = int64(hours*3600 + minutes*60)
	if b[0] == '-' {
		seconds = -seconds
	}
	return seconds, true
}

// digits returns the number that b spells, -1 if it is none.
func digits(b []byte) int {
	n := 0
	for _, c := range b {
		if c-'0' > 9 {
			return -1
		}
		n = n*10 + int(c-'0')
	}
	return n
}

func daysIn(year, month int) int {
	switch month {
	case 4, 6, 9, 11:
		return 30
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}

// unixDay counts days since 1970-01-01 in the Gregorian calendar, in years
// that begin in March so that the leap day comes last.
func unixDay(year, month, day int) int64 {
	if month <= 2 {
		year--
		month += 12
	}
	return int64(365*year + year/4 - year/100 + year/400 + (153*(month-3)+2)/5 + day - 719469)
}

// rareLayouts are notations that other tools write. time.Parse accepts a
// fraction behind the seconds of each.
var rareLayouts = [...]string{
	time.RFC3339,
	"2006-01-02 15:04:05Z07:00",
	"2006-01-02 15:04:05",
	"2006-01-02T15:04:05",
	"2006-01-02 15:04:05 -0700",
	"2006-01-02 15:04:05 -07:00",
	"2006-01-02 15:04:05 UTC",
	"2006-01-02T15:04:05Z0700",
}

var (
	errTimestampNotation = errors.New("not a timestamp such as 2023-11-16 18:17:03.9799600 or 2024-10-15T12:00:00.269Z")
	errTimestampDigits   = errors.New("finer than a nanosecond")
	errTimestampRange    = errors.New("outside the years 1678 to 2261")
)

func parseRare(s string) (int64, error) {
	if tooFine([]byte(s)) {
		return 0, errTimestampDigits
	}
	reason := errTimestampNotation
	for _, layout := range rareLayouts {
		t, err := time.Parse(layout, s)
		if err == nil {
			if y := t.UTC().Year(); y < minYear || y > maxYear {
				return 0, errTimestampRange
			}
			return t.UnixNano(), nil
		}
		if e := new(time.ParseError); errors.As(err, &e) && e.Message != "" { // right notation, wrong value: "month out of range"
			reason = errors.New(e.Message[len(": "):])
		}
	}
	return 0, reason
}

// tooFine reports a fraction with digits other than 0 beyond the ninth, which
// time.Parse would drop.
func tooFine(b []byte) bool {
	at := bytes.IndexAny(b, ".,")
	if at < 0 {
		return false
	}
	for i, c := range b[at+1:] {
		if c-'0' > 9 {
			return false
		}
		if i >= 9 && c != '0' {
			return true
		}
	}
	return false
}
