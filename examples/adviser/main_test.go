package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"servesim/sim/profile"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// output runs the program.
func output(t *testing.T, args ...string) string {
	t.Helper()
	var out, messages bytes.Buffer
	if err := run(args, &out, &messages); err != nil {
		t.Fatalf("adviser %v: %v", args, err)
	}
	if messages.Len() > 0 {
		t.Errorf("adviser %v: messages %q", args, &messages)
	}
	return out.String()
}

// figures runs the program and reads its JSON object.
func figures(t *testing.T, args ...string) report {
	t.Helper()
	var r report
	decoder := json.NewDecoder(strings.NewReader(output(t, append([]string{"-json"}, args...)...)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&r); err != nil {
		t.Fatal(err)
	}
	if decoder.More() {
		t.Error("more than one JSON value")
	}
	return r
}

// file writes a file and returns its path.
func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestGolden(t *testing.T) {
	for name, args := range map[string][]string{
		"text": nil,
		"json": {"-json"},
		"file": {"-save", "retrieve=100", "testdata/workflows.json"},
	} {
		got := output(t, args...)
		path := filepath.Join("testdata", name+".golden")
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		for _, line := range strings.Split(got, "\n") {
			if name != "json" && utf8.RuneCountInString(line) > 80 {
				t.Errorf("%s: long line %q", name, line)
			}
		}
	}
}

// The assistant: 1550 = 70 + 500 + 610 + 285 + 85, and 5986 in all; the queue
// dominates the first token. A saving counts only on the critical path.
func TestAssistant(t *testing.T) {
	r := figures(t)
	a := r.Workflows[0]
	if a.FirstTokenMs != 1550 || a.TotalMs != 5986 {
		t.Errorf("first token %v, total %v", a.FirstTokenMs, a.TotalMs)
	}
	want := []profile.PhaseTime{{Phase: "network_in", Ms: 70}, {Phase: "gateway", Ms: 500}, {Phase: "queue", Ms: 610}, {Phase: "prefill", Ms: 285},
		{Phase: "first decode and return", Ms: 85}}
	if d := cmp.Diff(want, a.FirstTokenPhases); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	cases := map[string][2]float64{}
	for _, c := range a.Cases {
		cases[c.Case] = [2]float64{float64(c.TotalMs), float64(c.FirstTokenMs)}
		if c.SaveMs != a.TotalMs-c.TotalMs {
			t.Errorf("%s saves %v", c.Case, c.SaveMs)
		}
	}
	for name, want := range map[string][2]float64{
		"a quarter of the prefill": {5914.75, 1478.75},
		"half the model queue":     {5681, 1245},
		"a third of the tool":      {5732.67, 1550},
		"30 tokens of 24 ms less":  {5266, 1550},
		"all four":                 {4636.42, 1173.75},
		"half the retrieval":       {5836, 1400}, // 150 of 215: the other retrieval is critical then
		"retrievals in series":     {6266, 1830},
	} {
		got, ok := cases[name]
		if !ok || math.Abs(got[0]-want[0]) > 0.005 || math.Abs(got[1]-want[1]) > 0.005 {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	for _, s := range a.Spans {
		if want := map[string]profile.Number{"second retrieval": 150}[s.Name]; s.SlackMs != want {
			t.Errorf("slack of %s is %v, want %v", s.Name, s.SlackMs, want)
		}
	}
	for _, w := range a.Worth {
		if w.Span == "retrieval" && w.SaveMs != 150 {
			t.Errorf("no retrieval saves %v, want 150", w.SaveMs)
		}
	}
	call := r.FirstCall
	if call.TTFT.Mean != 1550 || call.DominantTTFT.Phase != "queue" || call.DominantTTFT.MeanMs != 610 || call.ResidualMs != 85 {
		t.Errorf("first call: %v, %+v, residual %v", call.TTFT.Mean, call.DominantTTFT, call.ResidualMs)
	}
	if math.Abs(float64(call.ITL.Mean)-396./17) > 1e-9 {
		t.Errorf("ITL %v", call.ITL.Mean)
	}
}

func TestSave(t *testing.T) {
	r := figures(t, "-save", "tool=60", "-save", "second call, first token=0.5")
	cases := r.Workflows[0].Cases
	if c := cases[len(cases)-1]; c.Case != "-save" || c.SaveMs != 60.5 {
		t.Errorf("%+v", c)
	}
}

// Large workflows stay within the page and the columns.
func TestLargeWorkflow(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"workflow":"` + strings.Repeat("w", 300) + `","spans":[`)
	for i := range 2000 {
		if i > 0 {
			fmt.Fprintf(&b, `,{"name":"%s %d\n","after":["%s %d\n"],"duration_ms":1e9}`, strings.Repeat("long", 20), i, strings.Repeat("long", 20), i-1)
			continue
		}
		fmt.Fprintf(&b, `{"name":"%s 0\n","duration_ms":1}`, strings.Repeat("long", 20))
	}
	b.WriteString("]}")
	text := output(t, file(t, "large.json", b.String()))
	lines := strings.Split(text, "\n")
	if len(lines) > 90 || !strings.Contains(text, "… and 1960 more") {
		t.Errorf("%d lines", len(lines))
	}
	for _, line := range lines[4:] { // the first hold the name
		if utf8.RuneCountInString(line) > 80 {
			t.Errorf("long line %q", line)
		}
	}
}

func TestErrors(t *testing.T) {
	broken := file(t, "broken.json", "{\"workflow\": \"w\",\n\"spans\": [{\"name\": \"a\", \"after\": [\"b\"], \"duration_ms\": 1}]}")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-saved", "x"}, "flag provided but not defined: -saved; flags are -json, -save"},
		{[]string{"a.json", "b.json"}, `unexpected argument "b.json"`},
		{[]string{"nowhere.json"}, "open nowhere.json: no such file or directory"},
		{[]string{broken}, broken + `:2: span "a" comes after "b", which is no span`},
		{[]string{"-save", "tool"}, `invalid value "tool" for flag -save: want SPAN=MS`},
		{[]string{"-save", "tool=x"}, `invalid value "tool=x" for flag -save: "x" is not a number of milliseconds`},
		{[]string{"-save", "tool=-1"}, `invalid value "tool=-1" for flag -save: "-1" is not a number of milliseconds`},
		{[]string{"-save", "tools=1"}, `profile: workflow "assistant" has no span "tools"`},
		{[]string{"-save", "tool=761"}, `profile: span "tool" takes 760ms and cannot save 761ms`},
	} {
		var out, messages bytes.Buffer
		if err := run(c.args, &out, &messages); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %s", c.args, err, c.want)
		}
		if out.Len() > 0 {
			t.Errorf("%v: printed %q", c.args, &out)
		}
	}
	var out, messages bytes.Buffer
	if err := run([]string{"-h"}, &out, &messages); !errors.Is(err, flag.ErrHelp) || !strings.Contains(messages.String(), "-save span=ms") {
		t.Errorf("-h: %v, %q", err, &messages)
	}
}
