package profile

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// Number is a figure of a report. NaN means undefined or not measured: it is
// null in JSON and – in text, never zero.
type Number float64

// Defined reports whether v is a figure at all.
func (v Number) Defined() bool { return !math.IsNaN(float64(v)) }

// MarshalJSON writes NaN as null.
func (v Number) MarshalJSON() ([]byte, error) {
	if !v.Defined() {
		return []byte("null"), nil
	}
	return json.Marshal(float64(v))
}

// UnmarshalJSON reads null as NaN.
func (v *Number) UnmarshalJSON(data []byte) error {
	if bytes.Equal(data, []byte("null")) {
		*v = undefined()
		return nil
	}
	return json.Unmarshal(data, (*float64)(v))
}

// String formats v with one digit behind the point, – for NaN.
func (v Number) String() string { return v.digits(1) }

func (v Number) digits(n int) string {
	if !v.Defined() {
		return "–"
	}
	return strconv.FormatFloat(float64(v), 'f', n, 64)
}

func undefined() Number { return Number(math.NaN()) }

// over returns a/b, or NaN where b is zero.
func over(a, b float64) Number {
	if b == 0 {
		return undefined()
	}
	return Number(a / b)
}

// exact is the range in which whole nanoseconds are float64s, 104 days.
const exact int64 = 1 << 53

// millis returns the float64 that is nearest to t in milliseconds: what a
// reader of the file's decimals has. Figures are differences of such values, as
// in every profiler that computes in milliseconds, so that two of them agree
// also where a figure lies on the edge of rounding.
func millis(t int64) float64 {
	if -exact <= t && t <= exact {
		return float64(t) / 1e6
	}
	digits := strconv.FormatInt(t, 10)
	v, err := strconv.ParseFloat(digits+"e-6", 64)
	if err != nil {
		panic("profile: " + err.Error()) // digits are a number
	}
	return v
}

// plural returns "1 request", "2 requests".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// oneLine keeps names from traces from breaking a line of text.
func oneLine(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}
