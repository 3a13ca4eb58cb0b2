package workload_test

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"servesim/sim"
	"servesim/workload"
)

// shared returns the path of a file in the data directory beside the
// repository and skips the test if there is none.
func shared(t testing.TB, name string) string {
	t.Helper()
	dir := os.Getenv("SERVESIM_SHARED")
	if dir == "" {
		root, err := os.Getwd()
		if err != nil {
			t.Fatal(err)
		}
		for {
			if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
				break
			}
			if root == filepath.Dir(root) {
				t.Fatal("no go.mod above the test")
			}
			root = filepath.Dir(root)
		}
		dir = filepath.Join(root, "..", "shared")
	}
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("no recorded data: %v", err)
	}
	return path
}

// first returns the first n instants of a process.
func first(t testing.TB, n int, seed uint64, a workload.Arrivals) []sim.Time {
	t.Helper()
	times := make([]sim.Time, 0, n)
	for at, err := range a.Times(rand.New(workload.Stream(seed, "arrivals", 0))) {
		if err != nil {
			t.Fatal(err)
		}
		if times = append(times, at); len(times) == n {
			break
		}
	}
	return times
}

// failure returns the error that ends a process and how many arrivals came
// before it.
func failure(a workload.Arrivals) (n int, err error) {
	for _, err := range a.Times(rand.New(workload.Stream(1, "arrivals", 0))) {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// gapMoments returns mean and CV of the gaps of a process that starts at 0.
func gapMoments(times []sim.Time) (mean, cv float64) {
	n := float64(len(times))
	last := sim.Time(0)
	squares := 0.0
	for _, at := range times {
		gap := at.Sub(last).Seconds()
		squares += gap * gap
		last = at
	}
	mean = last.Seconds() / n
	return mean, math.Sqrt(squares/n-mean*mean) / mean
}

// within fails unless got is within z standard errors of want.
func within(t *testing.T, what string, got, want, se, z float64) {
	t.Helper()
	if !(math.Abs(got-want) <= z*se) {
		t.Errorf("%s = %.6g, want %.6g ± %g × %.3g", what, got, want, z, se)
	}
}

// errText makes table entries readable.
func errText(err error) string { return fmt.Sprint(err) }

// sharedText returns the text of a file, plain or gzip, in the data directory.
func sharedText(t testing.TB, name string) string {
	t.Helper()
	f, err := os.Open(shared(t, name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	data, err := io.ReadAll(unzipped(t, f))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// unzipped reads what may be zipped.
func unzipped(t testing.TB, in io.Reader) io.Reader {
	t.Helper()
	b := bufio.NewReader(in)
	if magic, _ := b.Peek(2); string(magic) != "\x1f\x8b" {
		return b
	}
	z, err := gzip.NewReader(b)
	if err != nil {
		t.Fatal(err)
	}
	return z
}
