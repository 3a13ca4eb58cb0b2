package profile_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"servesim/sim"
	"servesim/sim/profile"
	"servesim/sim/trace"
)

const ms = time.Millisecond

// record is a request sent at start ms whose seven phases take so many ms.
func record(id string, prompt, output int, start float64, phases ...float64) trace.Record {
	r := trace.Record{RequestID: id, PromptTokens: prompt, OutputTokens: output}
	t := start
	for i, at := range instants(&r) {
		if i > 0 {
			t += phases[i-1]
		}
		*at = sim.Time(t*1e6 + 0.5)
	}
	return r
}

func instants(r *trace.Record) []*sim.Time {
	return []*sim.Time{&r.ClientSend, &r.GatewayArrival, &r.QueueEnter, &r.PrefillStart, &r.PrefillEnd,
		&r.FirstTokenServer, &r.FirstTokenClient, &r.LastTokenClient}
}

// burst is ten requests with the same service behind a queue that grows.
func burst() (records []trace.Record) {
	for i, queue := range []float64{4, 8, 12, 18, 45, 90, 170, 260, 390, 520} {
		records = append(records, record(fmt.Sprintf("burst-%02d", i+1), 2048, 65, 1000*float64(i+1), 18, 6, queue, 145, 11, 18, 1408))
	}
	return records
}

func analyse(t *testing.T, records []trace.Record, o profile.Options) profile.Report {
	t.Helper()
	r, err := profile.Analyse(records, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// text is the report as printed.
func text(t *testing.T, r *profile.Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// has reports whether the text holds the words, wherever its lines break.
func has(text, words string) bool {
	return strings.Contains(strings.Join(strings.Fields(text), " "), words)
}

// shared returns the path of a file beside the repository, or skips.
func shared(t *testing.T, name string) string {
	t.Helper()
	root := os.Getenv("SERVESIM_SHARED")
	if root == "" {
		dir, err := os.Getwd()
		if err != nil {
			t.Fatal(err)
		}
		for {
			if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
				break
			}
			if dir == filepath.Dir(dir) {
				t.Skip("no go.mod above the test")
			}
			dir = filepath.Dir(dir)
		}
		root = filepath.Join(dir, "..", "shared")
	}
	path := filepath.Join(root, name)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("no shared/%s", name)
	}
	return path
}
