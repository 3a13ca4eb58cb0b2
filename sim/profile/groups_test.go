package profile_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"servesim/sim/profile"
	"servesim/sim/trace"
)

func mixture(t *testing.T, chat float64) profile.Report {
	t.Helper()
	p, err := profile.New(profile.Options{MinCell: 10})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		e := trace.Entry{Record: record(fmt.Sprint(i), 100, 10, 0, 0, 0, 0, chat, 0, 0, 9), Details: trace.Details{Class: "chat"}}
		if i >= 90 {
			e = trace.Entry{Record: record(fmt.Sprint(i), 8192, 10, 0, 0, 0, 0, 1000+100*float64(i-90), 0, 0, 9), Details: trace.Details{Class: "document"}}
		}
		if err := p.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	r, err := p.Report()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The overall p95 describes the documents, whatever the chats take; the cell of
// the chats shows it.
func TestMixture(t *testing.T) {
	for _, chat := range []float64{50, 100, 900} {
		o := mixture(t, chat)
		nearest := profile.Percentile(ttfts(chat), 0.95, profile.NearestRank)
		if nearest != 1400 {
			t.Errorf("chats of %v ms: nearest rank %v, want 1400", chat, nearest)
		}
		if !near(o.TTFT.P95, 1405) { // linear: between 1400 and 1500
			t.Errorf("chats of %v ms: p95 %v", chat, o.TTFT.P95)
		}
		class := o.Groups[0]
		if class.By != "class" || class.Cells[0].Name != "chat" || !near(class.Cells[0].P95TTFT, chat) || class.Cells[0].N != 90 {
			t.Errorf("chats of %v ms: %+v", chat, class)
		}
	}
}

func ttfts(chat float64) (values []float64) {
	for i := range 100 {
		if i < 90 {
			values = append(values, chat)
		} else {
			values = append(values, 1000+100*float64(i-90))
		}
	}
	return values
}

// Groups by what the trace records; small cells show their size and no figure.
func TestGroups(t *testing.T) {
	p, err := profile.New(profile.Options{MinCell: 3, PromptBands: []int{100, 1000}})
	if err != nil {
		t.Fatal(err)
	}
	add := func(n, prompt, cached int, route string) {
		for i := range n {
			e := trace.Entry{Record: record(fmt.Sprint(route, prompt, cached, i), prompt, 3, 0, 1, 1, float64(prompt), 7, 1, 1, 20), Details: trace.Details{Route: route}}
			if cached >= 0 {
				e.Details.HasCached, e.Details.CachedTokens = true, cached
			}
			if err := p.Add(e); err != nil {
				t.Fatal(err)
			}
		}
	}
	add(3, 1000, 500, "b")
	add(2, 100, 0, "a")
	add(4, 1001, 499, "b")
	add(1, 101, -1, "")
	r, err := p.Report()
	if err != nil {
		t.Fatal(err)
	}
	type cell struct {
		Name string
		N    int
		P95  string
		Top  string
	}
	got := map[string][]cell{}
	var order []string
	for _, g := range r.Groups {
		order = append(order, g.By)
		for _, c := range g.Cells {
			if c.Few != (c.N < 3) || c.Few == (c.DominantE2E != "") {
				t.Errorf("%s: %+v", g.By, c)
			}
			got[g.By] = append(got[g.By], cell{c.Name, c.N, c.P95TTFT.String(), c.DominantTTFT})
		}
	}
	want := map[string][]cell{
		"prompt_tokens": {{"≤ 100", 2, "–", ""}, {"101–1000", 4, "1011.0", "queue"}, {"> 1000", 4, "1012.0", "queue"}},
		"cache":         {{"under half", 4, "1012.0", "queue"}, {"half or more", 3, "1011.0", "queue"}, {"miss", 2, "–", ""}, {"not recorded", 1, "–", ""}},
		"route":         {{"b", 7, "1012.0", "queue"}, {"a", 2, "–", ""}, {"not recorded", 1, "–", ""}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"prompt_tokens", "cache", "route"}, order); d != "" {
		t.Errorf("groups (-want +got):\n%s", d)
	}
	if s := text(t, &r); !has(s, "≤ 100 2 too few to say") || !has(s, "> 1000 4 1012.0 1012.0 10.0 1032.0 queue") {
		t.Errorf("%s", s)
	}
}

// Bands hold what they say, at their borders.
func TestPromptBands(t *testing.T) {
	var records []trace.Record
	for i, prompt := range []int{1, 512, 513, 2048, 2049, 8192, 8193, 32768, 32769} {
		records = append(records, record(fmt.Sprint(i), prompt, 1, 0, 1, 1, 1, 1, 1, 1, 1))
	}
	var got []string
	for _, c := range analyse(t, records, profile.Options{}).Groups[0].Cells {
		got = append(got, fmt.Sprint(c.Name, ": ", c.N))
	}
	want := []string{"≤ 512: 2", "513–2048: 2", "2049–8192: 2", "8193–32768: 2", "> 32768: 1"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if got := analyse(t, records, profile.Options{PromptBands: []int{}}).Groups[0].Cells; len(got) != 1 || got[0].Name != "all" {
		t.Errorf("without bands: %+v", got)
	}
}

// Bands that were asked for are all shown.
func TestManyBands(t *testing.T) {
	var bands []int
	var records []trace.Record
	for i := range 30 {
		bands = append(bands, 10*(i+1))
		records = append(records, record(fmt.Sprint(i), 10*(i+1), 1, 0, 1, 1, 1, 1, 1, 1, 1))
	}
	if got := analyse(t, records, profile.Options{PromptBands: bands}).Groups[0].Cells; len(got) != 30 || got[29].Name != "291–300" {
		t.Errorf("%d bands, the last %+v", len(got), got[len(got)-1])
	}
}

// Many routes share the last cell.
func TestManyCells(t *testing.T) {
	p, err := profile.New(profile.Options{MinCell: 1})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		e := trace.Entry{Record: record(fmt.Sprint(i), 1, 1, 0, 1, 1, 1, 1, 1, 1, 1), Details: trace.Details{Route: fmt.Sprint("pod-", max(0, i-500))}}
		if err := p.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	r, err := p.Report()
	if err != nil {
		t.Fatal(err)
	}
	cells := r.Groups[1].Cells
	n := 0
	for _, c := range cells {
		n += c.N
	}
	if len(cells) != 20 || cells[0].Name != "pod-0" || cells[0].N != 501 || cells[19].Name != "481 others" || n != 1000 {
		t.Errorf("%d cells of %d requests, first %+v, last %+v", len(cells), n, cells[0], cells[len(cells)-1])
	}
}
