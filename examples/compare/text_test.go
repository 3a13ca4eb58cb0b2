package main

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"servesim/examples/internal/commandtest"
	"servesim/sim/metrics"
)

// Nothing that the program writes is wider than a terminal.
func TestEightyColumns(t *testing.T) {
	dir := t.TempDir()
	long := filepath.Join(dir, strings.Repeat("recordings of a very long name ", 3), strings.Repeat("ä", 60)+".csv")
	if err := os.MkdirAll(filepath.Dir(long), 0o777); err != nil {
		t.Fatal(err)
	}
	rows, err := os.ReadFile(small)
	if err != nil {
		t.Fatal(err)
	}
	write(t, long, string(rows))
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-requests", "300", "-seeds", "2"}, "2 paired seeds"},
		{[]string{"-requests", "300", "-seeds", "1"}, "One run per scheduler"},
		{[]string{"-requests", "50", "-schedulers", "chunked"}, "One scheduler: nothing to compare"},
		{[]string{"-recording", long}, "ä.csv"},
		{[]string{"-recording", small, "-rate-scale", "1e6"}, "at 3.204e+06/s"},
		// Times of thousands of hours.
		{[]string{"-requests", "3000", "-rate-scale", "1000", "-seeds", "2", "-max-seqs", "1", "-kv-blocks", "100000", "-slo-ttft", "123456789.123", "-slo-itl", "98765.4321"}, "TTFT 123456789.123 ms, gap 98765.4321 ms"},
		{[]string{"-requests", "300", "-rate-scale", "1e5", "-replicas", "500", "-seeds", "3"}, "500 × 1 × H100"},
		{[]string{"-requests", "40", "-rate-scale", "1e-5", "-seeds", "2"}, "at 0.0001343/s"},
		{[]string{"-workload", "voice", "-requests", "40", "-seeds", "1"}, "voice: Voice agents"},
		{[]string{"-requests", "40", "-seeds", "1", "-schedulers", "dynamic", "-layer-wise", "-controller", "load-threshold", "-first-token", "decode"}, "layer by layer"},
		{[]string{"-requests", "300", "-kv-blocks", "100", "-seeds", "2"}, "chunked: 1 rejected, out_of_kv"},
		{[]string{"-requests", "50", "-max-model-len", "2", "-seeds", "2"}, "cannot be compared"},
	} {
		got := output(t, c.args...)
		commandtest.Columns(t, got)
		if !strings.Contains(got, c.want) || strings.Contains(got, "NaN") || strings.Contains(got, "%!") || !utf8.ValidString(got) {
			t.Errorf("%v: want %q and no NaN in\n%s", c.args, c.want, got)
		}
	}
}

func TestCells(t *testing.T) {
	for _, c := range []struct {
		v               float64
		decimals, width int
		want            string
	}{
		{28.4, 0, 6, "28"}, {0.126, 2, 6, "0.13"}, {999.99, 1, 5, "1000"}, {12345.67, 2, 6, "12346"}, {999999, 0, 6, "999999"},
		{1435158.7, 0, 6, "1435k"}, {123456, 0, 5, "123k"}, {2.34e9, 0, 6, "2340M"}, {1e15, 0, 6, "1e+15"}, {0, 1, 5, "0.0"}, {math.NaN(), 1, 5, "–"},
	} {
		if got := fit(metrics.Number(c.v), c.decimals, c.width); got != c.want {
			t.Errorf("%v with %d decimals in %d columns: %q, want %q", c.v, c.decimals, c.width, got, c.want)
		}
	}
	for v, want := range map[metrics.Number]string{1.011: "+1.01", -0.5: "-0.50", 0.0456: "+0.046", -3.2e-14: "-3.2e-14", 0: "+0.00"} {
		if got := signed(v); got != want {
			t.Errorf("difference %v: %q, want %q", v, got, want)
		}
	}
	for _, c := range []struct {
		path string
		n    int
		want string
	}{{"a/b.csv", 7, "a/b.csv"}, {"a/bb.csv", 7, "…bb.csv"}, {"ä/öö.csv", 7, "…öö.csv"}} {
		if got := shorten(c.path, c.n); got != c.want {
			t.Errorf("%s in %d columns: %q, want %q", c.path, c.n, got, c.want)
		}
	}
}

func TestHelp(t *testing.T) {
	help := commandtest.Help(t, run)
	for _, name := range strings.Fields("schedulers workload recording requests rate-scale replicas prefill-replicas link first-token model gpu slo-ttft slo-itl seed json traces config") {
		if !strings.Contains(help, "\n  -"+name) {
			t.Errorf("no -%s in the help", name)
		}
	}
}
