package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"

	"servesim/sim"
)

// Units of a decimal, in nanoseconds.
const (
	microsecond = 1_000
	millisecond = 1_000_000
	second      = 1_000_000_000
)

// appendMillis appends t in milliseconds as the shortest decimal that is
// exact: 12.5, 0, -0.000001.
func appendMillis(dst []byte, t sim.Time) []byte { return appendDecimal(dst, int64(t), millisecond) }

// appendDecimal appends nanoseconds in another unit, likewise.
func appendDecimal(dst []byte, n int64, unit uint64) []byte {
	ns := uint64(n)
	if n < 0 {
		dst = append(dst, '-')
		ns = -ns
	}
	dst = strconv.AppendUint(dst, ns/unit, 10)
	rest := ns % unit
	if rest == 0 {
		return dst
	}
	dst = append(dst, '.')
	for rest > 0 {
		unit /= 10
		dst = append(dst, byte('0'+rest/unit))
		rest %= unit
	}
	return dst
}

var errRange = errors.New("beyond 146 years")

// ParseMillis reads a JSON number of milliseconds as a file has it. The error
// names neither field nor value.
func ParseMillis(number string) (sim.Time, error) {
	if c := number + " "; !json.Valid([]byte(number)) || c[0] != '-' && (c[0] < '0' || c[0] > '9') {
		return 0, errors.New("want a number")
	}
	return parseMillis([]byte(number))
}

// parseMillis reads a JSON number of milliseconds, exactly.
func parseMillis(number []byte) (sim.Time, error) { return parseDecimal(number, 6) }

// parseDecimal reads a JSON number of a unit of 10 to the power digits
// nanoseconds, exactly. Digits below a nanosecond are rounded, half away from
// zero: they come from arithmetic in floating point and are below what any
// clock resolves.
func parseDecimal(number []byte, digits int) (sim.Time, error) {
	mantissa, exponent := number, 0
	if i := bytes.IndexAny(number, "eE"); i >= 0 {
		mantissa = number[:i]
		var err error
		if exponent, err = strconv.Atoi(string(number[i+1:])); err != nil {
			exponent = saturate(number[i+1] == '-')
		}
	}
	negative := mantissa[0] == '-'
	if negative {
		mantissa = mantissa[1:]
	}
	whole, fraction, _ := bytes.Cut(mantissa, []byte("."))
	ns, ok := shift(whole, fraction, len(whole)+exponent+digits)
	switch {
	case !ok:
		return 0, errRange
	case negative:
		return -ns, nil
	}
	return ns, nil
}

// saturate stands for an exponent that does not fit an int.
func saturate(negative bool) int {
	if negative {
		return -1 << 40
	}
	return 1 << 40
}

// shift returns the digits of whole and fraction as one number with the point
// behind the first n of them, rounded to an integer. It is not ok from limit
// on.
func shift(whole, fraction []byte, n int) (sim.Time, bool) {
	var v sim.Time
	digits := len(whole) + len(fraction)
	digit := func(i int) sim.Time {
		if i < len(whole) {
			return sim.Time(whole[i] - '0')
		}
		return sim.Time(fraction[i-len(whole)] - '0')
	}
	for i := range n {
		switch {
		case v > limit/10:
			return 0, false
		case i < digits:
			v = 10*v + digit(i)
		case v == 0:
			return 0, true // zeros, however many follow
		default:
			v *= 10
		}
	}
	if n >= 0 && n < digits && digit(n) >= 5 {
		v++
	}
	return v, v < limit
}
