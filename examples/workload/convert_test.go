package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"servesim/workload"
)

// converted runs a conversion and returns what it wrote to stdout and stderr.
func converted(t *testing.T, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, messages bytes.Buffer
	if err := run(context.Background(), append([]string{"convert"}, args...), &out, &messages); err != nil {
		t.Fatalf("workload convert %v: %v", args, err)
	}
	return out.String(), messages.String()
}

func TestConvert(t *testing.T) {
	text := func(name string) string {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	answered := strings.Replace(text("mooncake.jsonl"), `{"timestamp": 3001, "input_length": 700, "output_length": 0, "hash_ids": [0, 6]}`+"\n", "", 1)
	renumbered := strings.Replace(answered, "[7]", "[6]", 1)
	for _, c := range []struct {
		name           string
		args           []string
		stdout, stderr string
	}{
		{"mooncake to itself", []string{"-to", "mooncake", "testdata/mooncake.jsonl"}, renumbered,
			"6 rows: 5 requests, 1 dropped (1 without output tokens)\n"},
		{"mooncake to azure", []string{"-to", "azure", "-no-prefix", "-origin", "2024-05-12T00:00:00+02:00", "testdata/mooncake.jsonl"},
			"TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-11 22:00:00.0000000,1100,40\n2024-05-11 22:00:00.0000000,1600,12\n" +
				"2024-05-11 22:00:03.0000000,1024,300\n2024-05-11 22:00:03.0000000,1100,40\n2024-05-11 22:00:14.0030000,500,1\n",
			"6 rows: 5 requests, 1 dropped (1 without output tokens)\n"},
		{"burstgpt to mooncake", []string{"-to", "mooncake", "-lossy", "-model", "ChatGPT", "-spread", "1s", "-origin", "2s", "testdata/burstgpt.csv"},
			`{"timestamp": 2000, "input_length": 906, "output_length": 446, "hash_ids": [0, 1]}` + "\n" +
				`{"timestamp": 2500, "input_length": 36, "output_length": 29, "hash_ids": [2]}` + "\n",
			"5 rows: 2 requests, 3 dropped (1 without output tokens, 2 filtered out)\nleft out: models, log types and sessions\n"},
		{"tracelab to itself", []string{"-to", "tracelab", "-origin", "117ms", "testdata/tracelab.csv"}, text("tracelab.csv"), "4 rows: 4 requests, 0 dropped\n"},
		{"tracelab to azure", []string{"-to", "azure", "-lossy", "-assume-ttft", "100ms", "-assume-itl", "10ms", "-no-prefix", "testdata/tracelab.csv"},
			"TIMESTAMP,ContextTokens,GeneratedTokens\n1970-01-01 00:00:00.0000000,200,40\n1970-01-01 00:00:00.5000000,100,10\n" +
				"1970-01-01 00:00:00.7900000,270,20\n1970-01-01 00:00:01.2300000,340,16\n",
			"4 rows: 4 requests, 0 dropped\nleft out: the feedback of sessions\n"},
	} {
		stdout, stderr := converted(t, c.args...)
		if diff := cmp.Diff(c.stdout, stdout); diff != "" || stderr != c.stderr {
			t.Errorf("%s: messages %q, output (-want +got):\n%s", c.name, stderr, diff)
		}
	}
}

// A zipped output file, and the report as one JSON object.
func TestConvertToFile(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out.jsonl.gz")
	stdout, stderr := converted(t, "-json", "-to", "mooncake", "testdata/mooncake.jsonl", out)
	var r Report
	if err := json.Unmarshal([]byte(stdout), &r); err != nil || stderr != "" {
		t.Fatalf("report %q, messages %q: %v", stdout, stderr, err)
	}
	want := Report{File: "testdata/mooncake.jsonl", Format: "mooncake", To: "mooncake", Output: out, Rows: workload.Counts{Read: 6, Emitted: 5, ZeroOutput: 1}}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	f, err := os.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if plain, _ := converted(t, "-to", "mooncake", "testdata/mooncake.jsonl"); err != nil || string(data) != plain {
		t.Errorf("error %v, got\n%s\nwant\n%s", err, data, plain)
	}
}
