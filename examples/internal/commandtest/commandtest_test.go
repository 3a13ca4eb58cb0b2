package commandtest_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"servesim/examples/internal/command"
	"servesim/examples/internal/commandtest"
)

// recorder is a test whose failures are kept.
type recorder struct {
	testing.TB
	failed []string
}

func (r *recorder) Helper() {}
func (r *recorder) Errorf(format string, a ...any) {
	r.failed = append(r.failed, fmt.Sprintf(format, a...))
}
func (r *recorder) Error(a ...any)                { r.failed = append(r.failed, fmt.Sprint(a...)) }
func (r *recorder) Skipf(format string, a ...any) { r.Fatalf("skipped: "+format, a...) }

func (r *recorder) Fatal(a ...any) {
	r.Error(a...)
	runtime.Goexit()
}

func (r *recorder) Fatalf(format string, a ...any) {
	r.Errorf(format, a...)
	runtime.Goexit()
}

// failures are those of one use of the package.
func failures(t *testing.T, use func(t testing.TB)) string {
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		use(r)
	}()
	<-done
	return strings.Join(r.failed, "; ")
}

// says is a program that prints, says and returns what it is told.
func says(out, messages string, err error) command.Program {
	return commandtest.WithoutContext(func(_ []string, o, m io.Writer) error {
		io.WriteString(o, out)
		io.WriteString(m, messages)
		return err
	})
}

// obeys is a program that stops with its context.
func obeys(ctx context.Context, _ []string, out, _ io.Writer) error {
	if ctx.Err() == nil {
		io.WriteString(out, "done")
	}
	return ctx.Err()
}

// Every check passes what is sound, and reports what is not.
func TestChecks(t *testing.T) {
	broken := errors.New("broken")
	wide := strings.Repeat("ä", 73) + "\t" // 73 columns, and the tab to 80
	type object struct{ A int }
	for name, c := range map[string]struct {
		use  func(t testing.TB)
		want string // all failures
	}{
		"output":              {func(t testing.TB) { commandtest.Output(t, says("text", "", nil), "-x") }, ""},
		"output, error":       {func(t testing.TB) { commandtest.Output(t, says("text", "", broken), "-x") }, `["-x"]: broken`},
		"output, messages":    {func(t testing.TB) { commandtest.Output(t, says("text", "note", nil), "-x") }, `["-x"]: messages "note"`},
		"failure":             {func(t testing.TB) { commandtest.Failure(t, says("", "", broken)) }, ""},
		"failure, none":       {func(t testing.TB) { commandtest.Failure(t, says("", "", nil)) }, `[]: no error`},
		"failure, printed":    {func(t testing.TB) { commandtest.Failure(t, says("half", "", broken)) }, `[]: printed "half" and messages "" beside error broken`},
		"failure, messages":   {func(t testing.TB) { commandtest.Failure(t, says("", "note", broken)) }, `[]: printed "" and messages "note" beside error broken`},
		"help":                {func(t testing.TB) { commandtest.Help(t, says("", "Usage", flag.ErrHelp)) }, ""},
		"help, error":         {func(t testing.TB) { commandtest.Help(t, says("", "Usage", nil)) }, `-h: error <nil>, printed ""`},
		"help, printed":       {func(t testing.TB) { commandtest.Help(t, says("Usage", "", flag.ErrHelp)) }, `-h: error flag: help requested, printed "Usage"`},
		"help, wide":          {func(t testing.TB) { commandtest.Help(t, says("", wide+"x", flag.ErrHelp)) }, "81 columns: " + wide + "x"},
		"interrupted":         {func(t testing.TB) { commandtest.Interrupted(t, obeys) }, ""},
		"interrupted, deaf":   {func(t testing.TB) { commandtest.Interrupted(t, says("", "", nil)) }, `[]: error <nil>, printed ""`},
		"interrupted, prints": {func(t testing.TB) { commandtest.Interrupted(t, says("half", "", context.Canceled)) }, `[]: error context canceled, printed "half"`},
		"columns":             {func(t testing.TB) { commandtest.Columns(t, wide+"\nshort\n") }, ""},
		"columns, wide":       {func(t testing.TB) { commandtest.Columns(t, "short\n"+wide+"x\n") }, "81 columns: " + wide + "x"},
		"object":              {func(t testing.TB) { commandtest.Object[object](t, `{"A": 1}`+"\n") }, ""},
		"object, field":       {func(t testing.TB) { commandtest.Object[object](t, `{"B": 1}`) }, `json: unknown field "B"`},
		"object, two":         {func(t testing.TB) { commandtest.Object[object](t, `{"A": 1} {}`) }, "more than one JSON value"},
		"shared, absent":      {func(t testing.TB) { commandtest.Shared(t, "no such file") }, "skipped: no shared/no such file"},
	} {
		if got := failures(t, c.use); got != c.want {
			t.Errorf("%s: failures %q, want %q", name, got, c.want)
		}
	}
}

func TestResults(t *testing.T) {
	if got := commandtest.Output(t, says("text", "", nil)); got != "text" {
		t.Errorf("output %q", got)
	}
	if got := commandtest.Failure(t, says("", "", errors.New("broken"))); got != "broken" {
		t.Errorf("failure %q", got)
	}
	if got := commandtest.Help(t, says("", "Usage", flag.ErrHelp)); got != "Usage" {
		t.Errorf("help %q", got)
	}
	if got := commandtest.Object[map[string]int](t, `{"a": 1}`); got["a"] != 1 {
		t.Errorf("object %v", got)
	}
	path := commandtest.File(t, "a.csv", "1,2\n")
	if data, err := os.ReadFile(path); err != nil || string(data) != "1,2\n" || filepath.Base(path) != "a.csv" {
		t.Errorf("file %s holds %q, %v", path, data, err)
	}
	t.Setenv("SERVESIM_SHARED", filepath.Dir(path))
	if got := commandtest.Shared(t, "a.csv"); got != path {
		t.Errorf("shared %s, want %s", got, path)
	}
}

// -update writes what is compared without it.
func TestGolden(t *testing.T) {
	before := flag.Lookup("update").Value.String()
	t.Cleanup(func() { flag.Set("update", before) })
	flag.Set("update", "false")
	chdir(t, t.TempDir())
	if err := os.Mkdir("testdata", 0o777); err != nil {
		t.Fatal(err)
	}
	golden := func(text string) string {
		return failures(t, func(t testing.TB) { commandtest.Golden(t, "text", text) })
	}
	if got := golden("1\n"); got != "open testdata/text.golden: no such file or directory" {
		t.Errorf("without a file: %q", got)
	}
	flag.Set("update", "true")
	if got := golden("1\n"); got != "" {
		t.Errorf("-update: %q", got)
	}
	flag.Set("update", "false")
	if got := golden("1\n"); got != "" {
		t.Errorf("the same text: %q", got)
	}
	if got := golden("2\n"); !strings.HasPrefix(got, "text (-want +got):\n") {
		t.Errorf("other text: %q", got)
	}
}

// chdir moves to a folder until the test ends.
func chdir(t *testing.T, folder string) {
	t.Helper()
	before, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chdir(folder); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chdir(before) })
}
