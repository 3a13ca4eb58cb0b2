package metrics

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
)

// Number is a figure of a report. NaN means undefined or not measured: it is
// null in JSON and – in tables, never zero.
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
		*v = Number(math.NaN())
		return nil
	}
	return json.Unmarshal(data, (*float64)(v))
}

// String formats v for a column of a table: four digits or so, – for NaN.
func (v Number) String() string {
	a := math.Abs(float64(v))
	switch {
	case !v.Defined():
		return "–"
	case a >= 1e7:
		return strconv.FormatFloat(float64(v), 'e', 3, 64)
	case a >= 100:
		return strconv.FormatFloat(float64(v), 'f', 1, 64)
	case a >= 1 || a == 0:
		return strconv.FormatFloat(float64(v), 'f', 2, 64)
	}
	return strconv.FormatFloat(float64(v), 'f', 4, 64)
}

// over returns a/b, or NaN where b is zero.
func over(a, b float64) Number {
	if b == 0 {
		return Number(math.NaN())
	}
	return Number(a / b)
}
