package costmodel_test

import (
	"math"
	"os"
	"path/filepath"
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
