package workload_test

import (
	"strings"
	"testing"
	"time"

	"servesim/workload"
)

func TestParseTimestamp(t *testing.T) {
	noon := time.Date(2024, 10, 15, 12, 0, 0, 0, time.UTC).UnixNano()
	for s, want := range map[string]int64{
		"2024-10-15 12:00:00":                 noon,
		"2024-10-15T12:00:00Z":                noon,
		"2024-10-15T12:00:00.269Z":            noon + 269_000_000,
		"2024-10-15 12:00:00.9799600":         noon + 979_960_000, // 7 digits, exactly
		"2024-10-15 12:00:00.0000001":         noon + 100,
		"2024-10-15 12:00:00.123456789":       noon + 123_456_789,
		"2024-10-15 12:00:00.12345678900000":  noon + 123_456_789,
		"2024-10-15 12:00:00.001163+00:00":    noon + 1_163_000,
		"2024-10-15 12:00:00+00:00":           noon,
		"2024-10-15 13:30:00+01:30":           noon,
		"2024-10-15T04:00:00-08:00":           noon,
		"2024-10-15 12:00:00 UTC":             noon,
		"2024-10-15 12:00:00.5 +0000":         noon + 500_000_000,
		"2024-10-15T14:00:00.5+0200":          noon + 500_000_000,
		"1970-01-01 00:00:00":                 0,
		"1969-12-31 23:59:59.999999999":       -1,
		"2000-02-29 00:00:00":                 951_782_400e9,
		"1678-01-01 00:00:00":                 -9_214_560_000e9,
		"2261-12-31 23:59:59":                 9_214_646_399e9,
		"2024-02-29T23:59:59.999999999+23:59": time.Date(2024, 2, 29, 0, 0, 59, 999_999_999, time.UTC).UnixNano(),
	} {
		got, err := workload.ParseTimestamp([]byte(s))
		if err != nil || got != want {
			t.Errorf("%q is %d, %v, want %d", s, got, err, want)
		}
	}
}

func TestParseTimestampErrors(t *testing.T) {
	for s, want := range map[string]string{
		"":                                 "not a timestamp such as",
		"yesterday":                        "not a timestamp such as",
		"1700000000":                       "not a timestamp such as",
		"2024-10-15":                       "not a timestamp such as",
		"2024-10-15 12:00":                 "not a timestamp such as",
		"15/10/2024 12:00:00":              "not a timestamp such as",
		"2024-10-15 12:00:00.":             "extra text",
		"2024-10-15 12:00:00 CET":          "extra text",
		"2024-13-15 12:00:00":              "month out of range",
		"2023-02-29 12:00:00":              "day out of range",
		"2024-10-15 24:00:00":              "hour out of range",
		"2024-10-15 12:60:00":              "minute out of range",
		"2024-10-15 12:00:60":              "second out of range",
		"2024-10-15 12:00:00.1234567891":   "finer than a nanosecond",
		"2024-10-15T12:00:00.1234567891Z":  "finer than a nanosecond",
		"1677-12-31 23:59:59":              "outside the years 1678 to 2261",
		"2262-01-01 00:00:00":              "outside the years 1678 to 2261",
		"0001-01-01 00:00:00":              "outside the years 1678 to 2261",
		"2024-10-15 12:00:00.979960\x00":   "extra text",
		"2024-10-15T12:00:00.269Z trailer": "extra text",
	} {
		if got, err := workload.ParseTimestamp([]byte(s)); !strings.Contains(errText(err), want) {
			t.Errorf("%q is %d, %v, want error with %q", s, got, err, want)
		}
	}
}

// Whatever the quick parser accepts, time.Parse reads the same way.
func FuzzParseTimestamp(f *testing.F) {
	for _, s := range []string{
		"2023-11-16 18:17:03.9799600", "2024-05-12 00:00:00.001163+00:00", "2024-05-12 00:00:00+00:00",
		"2024-10-15T12:00:00.269Z", "2024-02-30 00:00:00", "2000-02-29T23:59:59.999999999-23:59", "1678-01-01 00:00:00+23:00",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := workload.ParseTimestamp([]byte(s))
		if err != nil {
			return
		}
		want, err := workload.ParseRare(s)
		if err != nil && strings.Contains(err.Error(), "outside the years") {
			return // the offset leads over the edge of the range
		}
		if err != nil || got != want {
			t.Errorf("%q is %d, time.Parse says %d, %v", s, got, want, err)
		}
	})
}
