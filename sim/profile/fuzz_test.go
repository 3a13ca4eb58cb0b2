package profile_test

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"servesim/sim/profile"
	"servesim/sim/trace"
)

// FuzzRead: whatever a file holds, it is refused with its name or profiled,
// and the figures of complete traces add up.
func FuzzRead(f *testing.F) {
	f.Add(lines(burst()[:2]), false)
	f.Add(lines(random(3)), false)
	f.Add(strings.ReplaceAll(lines(burst()[:3]), `"prefill_end_ms":1173,`, ""), true)
	f.Add(strings.Replace(lines(burst()[:1]), "}", `,"details_version":1,"class":"a","cached_tokens":5,"clock_error_ms":99}`, 1), false)
	f.Add("{}", true)
	f.Fuzz(func(t *testing.T, file string, partial bool) {
		r, err := profile.Read(strings.NewReader(file), "file", profile.Options{Partial: partial, MinCell: 1, TTFT: ms, InSystem: 2})
		if err != nil {
			if !strings.HasPrefix(err.Error(), "file:") {
				t.Fatalf("error %v names no file", err)
			}
			return
		}
		if err := r.WriteText(io.Discard); err != nil {
			t.Fatal(err)
		}
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		var back profile.Report
		if err := json.Unmarshal(data, &back); err != nil {
			t.Fatal(err)
		}
		sum := float64(r.ResidualMs)
		for _, p := range r.Phases {
			if p.MeanMs.Defined() {
				sum += float64(p.MeanMs)
			}
			if p.MeanMs < 0 || p.P95Ms > p.MaxMs {
				t.Fatalf("%+v", p)
			}
		}
		if mean := float64(r.E2E.Mean); r.E2E.N > 0 && math.Abs(sum-mean) > 1e-9*max(1, mean)+0.01 { // float64 milliseconds since 1970
			t.Fatalf("phases and residual add up to %v, E2E is %v", sum, mean)
		}
	})
}

// FuzzReadWorkflows: what is read has a path no shorter than its longest span
// and no longer than all.
func FuzzReadWorkflows(f *testing.F) {
	f.Add(workflowFile)
	f.Add(measuredFile)
	f.Add(workflowFile + measuredFile)
	f.Fuzz(func(t *testing.T, file string) {
		list, err := profile.ReadWorkflows(strings.NewReader(file), "file")
		if err != nil {
			if !strings.HasPrefix(err.Error(), "file:") {
				t.Fatalf("error %v names no file", err)
			}
			return
		}
		for _, w := range list {
			p, err := w.Path()
			if err != nil {
				t.Fatal(err)
			}
			var longest, sum float64
			for _, s := range w.Spans {
				longest = max(longest, float64(s.Duration+s.Wait)/1e6)
				sum += float64(s.Duration+s.Wait) / 1e6
			}
			total := float64(p.TotalMs)
			if total < longest*(1-1e-12) || total > sum*(1+1e-12) {
				t.Fatalf("total %v, longest span %v, all %v", total, longest, sum)
			}
			for _, s := range p.Spans {
				if s.SlackMs < 0 || s.Critical && s.SlackMs != 0 {
					t.Fatalf("%+v", s)
				}
			}
		}
	})
}

// FuzzReadAnswers: what is read survives a round trip.
func FuzzReadAnswers(f *testing.F) {
	data, err := json.Marshal(profile.Answers{Profiler: "p", Answers: perfect()})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(data))
	f.Add(`{"answers":[{"scenario":"\ud800"}]}`)
	f.Fuzz(func(t *testing.T, file string) {
		a, err := profile.ReadAnswers(strings.NewReader(file), "file")
		if err != nil {
			if !strings.HasPrefix(err.Error(), "file:") {
				t.Fatalf("error %v names no file", err)
			}
			return
		}
		data, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		back, err := profile.ReadAnswers(bytes.NewReader(data), "file")
		if err != nil {
			t.Fatal(err)
		}
		for _, list := range [][]profile.Answer{a.Answers, back.Answers} {
			for i := range list { // an empty list is left out
				if len(list[i].Causes) == 0 {
					list[i].Causes = nil
				}
				if len(list[i].Affected) == 0 {
					list[i].Affected = nil
				}
			}
		}
		if d := cmp.Diff(a, back); d != "" {
			t.Fatalf("(-want +got):\n%s", d)
		}
	})
}

// FuzzReadDiagnosis: what is read and valid makes a page.
func FuzzReadDiagnosis(f *testing.F) {
	r, err := profile.Analyse([]trace.Record{record("a", 1, 2, 0, 1, 2, 3, 4, 5, 6, 7)}, profile.Options{})
	if err != nil {
		f.Fatal(err)
	}
	data, err := json.Marshal(r.Complete(said(), "x"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(data))
	f.Add(`{"coordinates":{"shape":"s"},"configuration":{"":""}}`)
	f.Fuzz(func(t *testing.T, file string) {
		d, err := profile.ReadDiagnosis(strings.NewReader(file), "file")
		if err != nil {
			if !strings.HasPrefix(err.Error(), "file:") {
				t.Fatalf("error %v names no file", err)
			}
			return
		}
		if err := d.WriteMarkdown(io.Discard); (err == nil) != (d.Validate() == nil) {
			t.Fatalf("page %v, valid %v", err, d.Validate())
		}
	})
}
