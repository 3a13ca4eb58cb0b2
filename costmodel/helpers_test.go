package costmodel_test

import (
	"compress/gzip"
	"encoding/csv"
	"io"
	"iter"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"servesim/costmodel"
)

// shared returns the path of a file of the material beside the repository, or
// skips the test.
func shared(t *testing.T, name string) string {
	t.Helper()
	root := os.Getenv("SERVESIM_SHARED")
	if root == "" {
		root = filepath.Join("..", "..", "shared")
	}
	path := filepath.Join(root, filepath.FromSlash(name))
	if _, err := os.Stat(path); err != nil {
		t.Skipf("no shared material: %v", err)
	}
	return path
}

func setup(t testing.TB, model, gpu string) costmodel.Setup {
	t.Helper()
	s, err := costmodel.NewSetup(model, gpu)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func build(t testing.TB, s costmodel.Setup) *costmodel.Transformer {
	t.Helper()
	m, err := costmodel.NewTransformer(s)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func transformer(t testing.TB, model, gpu string) *costmodel.Transformer {
	t.Helper()
	return build(t, setup(t, model, gpu))
}

// wantError compares an error with its text; "" means none.
func wantError(t *testing.T, err error, want string) {
	t.Helper()
	got := ""
	if err != nil {
		got = err.Error()
	}
	if got != want {
		t.Errorf("error\n got %q\nwant %q", got, want)
	}
}

func wantPanic(t *testing.T, want string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if got := recover(); got != want {
			t.Errorf("panic\n got %v\nwant %v", got, want)
		}
	}()
	f()
}

// near reports equality to a relative 1e-12.
func near(got, want float64) bool {
	return math.Abs(got-want) <= 1e-12*math.Abs(want)
}

// row is one of a table with named columns.
type row struct {
	t      *testing.T
	column map[string]int
	fields []string
}

// text returns a field, "" if there is no such column.
func (r row) text(name string) string {
	if i, ok := r.column[name]; ok {
		return r.fields[i]
	}
	return ""
}

func (r row) number(name string) float64 {
	x, err := strconv.ParseFloat(r.text(name), 64)
	if err != nil {
		r.t.Fatalf("%s: %v", name, err)
	}
	return x
}

// readTable yields the rows of a compressed table of the material beside the
// repository. A row is valid until the next one.
func readTable(t *testing.T, name string) iter.Seq[row] {
	t.Helper()
	path := shared(t, name)
	return func(yield func(row) bool) {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		table := csv.NewReader(z)
		header, err := table.Read()
		if err != nil {
			t.Fatal(err)
		}
		r := row{t: t, column: map[string]int{}}
		for i, name := range header {
			r.column[name] = i
		}
		table.ReuseRecord = true
		for {
			if r.fields, err = table.Read(); err == io.EOF {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !yield(r) {
				return
			}
		}
	}
}

// precision is one of the catalogue.
func precision(name string) costmodel.Precision {
	p, err := costmodel.LookupPrecision(name)
	if err != nil {
		panic(err)
	}
	return p
}
