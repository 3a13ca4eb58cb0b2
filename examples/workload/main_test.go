package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"servesim/examples/internal/commandtest"
	"servesim/workload"
)

// output runs the program.
func output(t *testing.T, args ...string) string {
	t.Helper()
	return commandtest.Output(t, run, args...)
}

// file writes a file to describe.
func file(t *testing.T, name, text string) string {
	t.Helper()
	return commandtest.File(t, name, text)
}

func TestGolden(t *testing.T) {
	for golden, args := range map[string][]string{
		"mooncake": {"describe", "-cache-blocks", "2,4", "testdata/mooncake.jsonl"},
		"burstgpt": {"describe", "-model", "ChatGPT", "testdata/burstgpt.csv"},
		"tracelab": {"describe", "testdata/tracelab.csv"},
	} {
		commandtest.Golden(t, golden, output(t, args...))
	}
}

// The JSON is one object, whose rows add up.
func TestJSON(t *testing.T) {
	d := json.NewDecoder(strings.NewReader(output(t, "describe", "-json", "testdata/burstgpt.csv")))
	var o Output
	if err := d.Decode(&o); err != nil || d.More() {
		t.Fatalf("not one object: %v", err)
	}
	want := workload.Counts{Read: 5, Emitted: 3, ZeroPrompt: 1, ZeroOutput: 1}
	if *o.Rows != want || o.Format != "burstgpt" || o.Workload.Requests != 3 || o.Sharing != nil || o.Conventions == "" {
		t.Errorf("%+v", o)
	}
}

func TestDetect(t *testing.T) {
	const trace = `{"request_id":"b","prompt_tokens":2,"output_tokens":3,"client_send_ms":-4,"gateway_arrival_ms":-4,"queue_enter_ms":0,"prefill_start_ms":1,"prefill_end_ms":2,"first_token_server_ms":3,"first_token_client_ms":4,"last_token_client_ms":5}`
	for want, text := range map[string]string{
		"azure":         "\ufeffGeneratedTokens, TIMESTAMP,\"ContextTokens\"\r\n1,2024-05-12 00:00:00Z,2\r\n",
		"burstgpt":      "Timestamp,Model,Request tokens,Response tokens,Log Type\n1,m,2,3,l\n",
		"mooncake":      "\n" + `{"timestamp": 0, "input_length": 3, "output_length": 1, "hash_ids": [0]}`,
		"bailian":       `{"chat_id": 1, "timestamp": 0, "input_length": 3, "output_length": 1, "hash_ids": [0], "type": "text"}`,
		"lengths":       "num_decode_tokens,num_prefill_tokens\n1,2\n",
		"tracelab":      "id,arrival_time,round_idx,prefix_len,input_len,output_len,tool_wait_after_ms\na,1,0,0,1,1,1\n",
		"trace":         trace,
		"ragpulse-side": `{"passage_id": 1, "token_length": 3}`,
		"servegen":      "0,0,0,,0,0\n",
	} {
		path := file(t, "x", text)
		if want == "servegen" { // by its name too
			path = file(t, "x-trace.csv", text)
		}
		f, err := detect(path)
		if err != nil || f.name != want {
			t.Errorf("%s: detected %v, %v", want, f, err)
			continue
		}
		output(t, "describe", path)
		if f.requests != nil && want != "tracelab" {
			if a, b := output(t, "describe", path), output(t, "describe", "-format", want, path); a != b {
				t.Errorf("%s: with -format\n%s\nwithout\n%s", want, b, a)
			}
		}
	}
	lengths := file(t, "x-dataset.json", "{\n  \"0\": {\"input_tokens\": \"{1: 1.0}\"}\n}\n")
	if got := output(t, "describe", lengths); !strings.Contains(got, "input_tokens             1         1         1         1") {
		t.Errorf("a file of lengths:\n%s", got)
	}
	if got := output(t, "describe", "-format", "timed-trace", file(t, "x", `{"timestamp": 0.5, "input_length": 17, "output_length": 1, "hash_ids": [0, 1]}`)); !strings.Contains(got, "2 blocks of 16 tokens") {
		t.Errorf("a timed trace:\n%s", got)
	}
}

func TestErrors(t *testing.T) {
	azure := file(t, "a", "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-12 00:00:01Z,1,2\n2024-05-12 00:00:00Z,1,2\n")
	out := filepath.Join(t.TempDir(), "out")
	for want, args := range map[string][]string{
		"describe, convert or plot?":                                                                              {},
		`unknown command "draw"; known are describe, convert and plot`:                                            {"draw"},
		"describe what? FILE is missing":                                                                          {"describe"},
		`unexpected argument "-json" (flags go before FILE)`:                                                      {"describe", azure, "-json"},
		"flag provided but not defined: -sorted; flags of describe are -":                                         {"describe", "-sorted", azure},
		`-format: unknown "csv"; known are azure, burstgpt`:                                                       {"describe", "-format", "csv", azure},
		`invalid value "0" for flag -cache-blocks: "0" is not a number of blocks, at least 1`:                     {"describe", "-cache-blocks", "0", azure},
		`invalid value "1x" for flag -cache-blocks`:                                                               {"describe", "-cache-blocks", "1x", azure},
		"-assume-ttft is -1s and -assume-itl 0s, want at least 0":                                                 {"describe", "-assume-ttft", "-1s", azure},
		azure + ": -spread means nothing to the format azure, but to burstgpt, ragpulse, bailian, mooncake, time": {"describe", "-spread", "1s", azure},
		`-to is "csv", want one of azure, mooncake, tracelab`:                                                     {"convert", "-to", "csv", azure},
		`-to is "", want one of`:                                                                                  {"convert", azure},
		"-json reports on standard output, so the recording needs an OUTPUT":                                      {"convert", "-json", "-to", "azure", azure},
		"-whole-ms and -to-block-tokens mean nothing to -to azure":                                                {"convert", "-whole-ms", "-to", "azure", azure},
		"-origin of -to azure is a date, of others a time such as 117ms":                                          {"convert", "-origin", "1s", "-to", "azure", azure},
		"invalid value \"noon\" for flag -origin: neither a date such as":                                         {"convert", "-origin", "noon", "-to", "azure", azure},
		"(Sort accepts that); -sort puts them in order":                                                           {"convert", "-to", "mooncake", azure, out},
		"OUTPUT " + azure + " is FILE":                                                                            {"convert", "-to", "mooncake", azure, azure},
		azure + ": azure does not say which requests wait for which":                                              {"convert", "-to", "tracelab", azure},
		"testdata/tracelab.csv: its requests arrive when answers come; -assume-ttft and -assume-itl say":          {"convert", "-to", "azure", "testdata/tracelab.csv"},
		"testdata/tracelab.csv: azure would lose the feedback of sessions; -lossy leaves them out":                {"convert", "-to", "azure", "-assume-itl", "1ms", "testdata/tracelab.csv"},
		"testdata/tracelab.csv: its prefixes are in blocks of 16 tokens, mooncake's in 512; -to-block-to":         {"convert", "-to", "mooncake", "-lossy", "-assume-itl", "1ms", "testdata/tracelab.csv", out},
		"testdata/burstgpt.csv: mooncake would lose models, log types and sessions; -lossy leaves them":           {"convert", "-to", "mooncake", "testdata/burstgpt.csv"},
		"request 0 has Prefix, which an Azure trace has no place for (Lossy leaves it out); -lossy does":          {"convert", "-to", "azure", "testdata/mooncake.jsonl", out},
		"ragpulse-side has no requests to convert":                                                                {"convert", "-to", "azure", file(t, "side", `{"passage_id": 1, "token_length": 3}`)},
		"no such file": {"describe", filepath.Join(t.TempDir(), "absent")},
		"its beginning is that of no known format; -format names one of azure": {"describe", file(t, "x", "a,b\n1,2\n")},
		"the file is empty": {"describe", "-format", "azure", file(t, "x", "")},
		"unexpected EOF":    {"describe", file(t, "x", "\x1f\x8b\x08\x00\x00")},
	} {
		var stdout, stderr bytes.Buffer
		err := run(context.Background(), args, &stdout, &stderr)
		if err == nil || !strings.Contains(err.Error(), want) || len(args) > 0 && stdout.Len() > 0 && args[0] == "describe" {
			t.Errorf("workload %v: error %v, want %s; output %q", args, err, want, &stdout)
		}
		if _, err := os.Stat(out); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("workload %v left its output", args)
		}
	}
	if text, err := os.ReadFile(azure); err != nil || !strings.HasPrefix(string(text), "TIMESTAMP") {
		t.Errorf("FILE was changed: %q, %v", text, err)
	}
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{{"-h"}, {"help"}, {"describe", "-h"}, {"convert", "--help"}, {"plot", "-h"}} {
		var stdout, stderr bytes.Buffer
		if err := run(context.Background(), args, &stdout, &stderr); !errors.Is(err, flag.ErrHelp) {
			t.Errorf("workload %v: %v", args, err)
		}
		for _, w := range []string{"Usage: workload describe [flags] FILE", "-format", "-spread", "workload plot -out DIR"} {
			if !strings.Contains(stderr.String(), w) {
				t.Errorf("workload %v: the help lacks %q", args, w)
			}
		}
		for _, line := range strings.Split(stderr.String(), "\n") {
			if n := len([]rune(strings.ReplaceAll(line, "\t", "    "))); n > 80 {
				t.Errorf("workload %v: %d columns: %s", args, n, line)
			}
		}
	}
}

// An interrupted run says so and leaves nothing.
func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	out := filepath.Join(t.TempDir(), "out")
	for _, args := range [][]string{
		{"describe", "testdata/mooncake.jsonl"}, {"describe", "testdata/tracelab.csv"},
		{"convert", "-to", "mooncake", "testdata/mooncake.jsonl", out}, {"convert", "-to", "tracelab", "testdata/tracelab.csv", out},
		{"plot", "-out", out, "testdata/mooncake.jsonl"}, {"describe", "-assume-itl", "1ms", "testdata/document.json"},
	} {
		var stdout, stderr bytes.Buffer
		if err := run(ctx, args, &stdout, &stderr); !errors.Is(err, context.Canceled) || stdout.Len() > 0 {
			t.Errorf("workload %v: %v, output %q", args, err, &stdout)
		}
		if _, err := os.Stat(out); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("workload %v left its output", args)
		}
	}
}
