// Package commandtest runs the example programs in tests, as their run
// function, without a process.
//
// It defines the flag -update of those tests, which rewrites the golden files.
package commandtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"servesim/examples/internal/command"
	"servesim/examples/internal/terminal"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// WithoutContext makes a Program of one that needs no context.
func WithoutContext(run func(args []string, out, messages io.Writer) error) command.Program {
	return func(_ context.Context, args []string, out, messages io.Writer) error { return run(args, out, messages) }
}

// Output is what a program prints. Errors and messages fail the test.
func Output(t testing.TB, run command.Program, args ...string) string {
	t.Helper()
	var out, messages bytes.Buffer
	if err := run(context.Background(), args, &out, &messages); err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	if messages.Len() > 0 {
		t.Errorf("%q: messages %q", args, &messages)
	}
	return out.String()
}

// Failure is the error that a program ends with, "" without one, which fails
// the test. So does anything that is printed beside the error.
func Failure(t testing.TB, run command.Program, args ...string) string {
	t.Helper()
	var out, messages bytes.Buffer
	err := run(context.Background(), args, &out, &messages)
	if out.Len() > 0 || messages.Len() > 0 {
		t.Errorf("%q: printed %q and messages %q beside error %v", args, &out, &messages, err)
	}
	if err == nil {
		t.Errorf("%q: no error", args)
		return ""
	}
	return err.Error()
}

// Help is what a program says with -h. It must be a message within Columns.
func Help(t testing.TB, run command.Program) string {
	t.Helper()
	var out, messages bytes.Buffer
	if err := run(context.Background(), []string{"-h"}, &out, &messages); !errors.Is(err, flag.ErrHelp) || out.Len() > 0 {
		t.Errorf("-h: error %v, printed %q", err, &out)
	}
	Columns(t, messages.String())
	return messages.String()
}

// Interrupted runs a program whose context has ended: it must say so and print
// nothing.
func Interrupted(t testing.TB, run command.Program, args ...string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var out, messages bytes.Buffer
	if err := run(ctx, args, &out, &messages); !errors.Is(err, context.Canceled) || out.Len() > 0 {
		t.Errorf("%q: error %v, printed %q", args, err, &out)
	}
}

// Golden compares text with the file testdata/NAME.golden, or writes it there
// with -update.
func Golden(t testing.TB, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// Updating reports whether the golden files are being rewritten.
func Updating() bool { return *update }

// Columns reports lines that are wider than a terminal: 80 columns, a tab ends
// at a multiple of 8.
func Columns(t testing.TB, text string) {
	t.Helper()
	for _, line := range strings.Split(text, "\n") {
		columns := 0
		for _, r := range line {
			if r == '\t' {
				columns += 8 - columns%8
			} else {
				columns++
			}
		}
		if columns > terminal.Columns {
			t.Errorf("%d columns: %s", columns, line)
		}
	}
}

// Object decodes text that is one JSON value whose fields are all known to T.
func Object[T any](t testing.TB, text string) (v T) {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&v); err != nil {
		t.Fatal(err)
	}
	if decoder.More() {
		t.Error("more than one JSON value")
	}
	return v
}

// File writes a file into a folder of the test and returns its path.
func File(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// Shared returns the path of a file of the material beside the repository, or
// of SERVESIM_SHARED. The test is skipped without it.
func Shared(t testing.TB, name string) string {
	t.Helper()
	root := os.Getenv("SERVESIM_SHARED")
	if root == "" {
		root = filepath.Join("..", "..", "..", "shared") // from examples/NAME
	}
	path := filepath.Join(root, filepath.FromSlash(name))
	if _, err := os.Stat(path); err != nil {
		t.Skipf("no shared/%s", name)
	}
	return path
}
