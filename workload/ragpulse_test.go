package workload_test

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/sim"
	"servesim/sim/kv"
	"servesim/workload"
)

// ragRows have parts of 8, 5 and 3 tokens (see ragTables).
const ragRows = `{"timestamp": "82", "input_length": 20, "output_length": 192, "hash_ids": {"sys_prompt": [1, 2], "passages_ids": [7], "history": [], "web_search": [], "user_input": [9]}, "session_id": "a-1"}
{"timestamp": "93", "input_length": 16, "output_length": 86, "hash_ids": {"user_input": [], "sys_prompt": [1, 2], "history": [3]}, "session_id": "b"}

{"timestamp": "93", "input_length": 30, "output_length": 5, "hash_ids": {"sys_prompt": [2], "passages_ids": [7, 7], "history": [], "web_search": [4], "user_input": [9]}, "session_id": "a-1"}

`

var ragTables = map[string]string{
	"1_sys_prompt": `{"sys_prompt_id": 1, "token_length": 8}` + "\n" + `{"sys_prompt_id": 2, "token_length": 5}`,
	"2_passages":   `{"passage_id": 7, "token_length": "3", "more": null}`,
	"3_history":    `{"token_length": 3, "history_id": "3"}`,
	"4_user_input": `{"user_input_id": 9, "token_length": 0}`,
	"5_web_search": `{"web_search_id": 4, "token_length": 1}`,
}

func ragPulse(rows string, tables map[string]string) workload.RAGPulse {
	return workload.RAGPulse{
		Path: "trace", Open: memory(rows), BlockTokens: 4,
		Side: func(name string) (io.ReadCloser, error) { return memory(tables[name])() },
	}
}

func TestRAGPulse(t *testing.T) {
	var counts workload.Counts
	p := ragPulse(ragRows, ragTables)
	p.Counts = &counts
	got := collect(t, p.Requests())
	want := []sim.Request{
		{ID: 0, Prompt: 20, Output: 192, PrefixBlock: 4},
		{ID: 1, Arrival: 11e9, Prompt: 16, Output: 86, PrefixBlock: 4},
		{ID: 2, Arrival: 11e9, Prompt: 30, Output: 5, PrefixBlock: 4},
	}
	var prefixes [][]kv.Hash
	for i := range got {
		prefixes = append(prefixes, got[i].Prefix)
		got[i].Prefix = nil
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if want := (workload.Counts{Read: 3, Emitted: 3}); counts != want {
		t.Errorf("counts %+v, want %+v", counts, want)
	}
	// Parts of 8 + 5 + 3 + 0, 8 + 5 + 3, and 5 + 3 + 3 + 1 tokens; the first
	// 13 are the same in the first two rows, so three blocks are.
	if n := []int{len(prefixes[0]), len(prefixes[1]), len(prefixes[2])}; !slices.Equal(n, []int{4, 4, 3}) {
		t.Fatalf("prefixes of %v blocks, want 4, 4, 3", n)
	}
	if !slices.Equal(prefixes[0][:3], prefixes[1][:3]) || prefixes[0][3] == prefixes[1][3] || prefixes[0][0] == prefixes[2][0] {
		t.Errorf("prefixes %v", prefixes)
	}
	p.Path = "other"
	if other := collect(t, p.Requests()); other[0].Prefix[0] == prefixes[0][0] {
		t.Error("another recording has the same prefixes")
	}
	p.Spread = 2 * time.Second
	if got := collect(t, p.Requests()); got[2].Arrival != 12e9 {
		t.Errorf("spread: the third request arrives at %v", got[2].Arrival)
	}
	p.NoPrefix, p.Side = true, nil
	p.Open = memory(strings.ReplaceAll(ragRows, `"hash_ids"`, `"ids"`))
	if got := collect(t, p.Requests()); got[2].Prefix != nil || got[2].PrefixBlock != 0 || got[2].Prompt != 30 {
		t.Errorf("without prefixes: %+v", got[2])
	}
}

// An id means something in its kind only.
func TestRAGPulseKinds(t *testing.T) {
	const rows = `{"timestamp": 1, "input_length": 8, "output_length": 1, "hash_ids": {"passages_ids": [5]}, "session_id": ""}
{"timestamp": 2, "input_length": 8, "output_length": 1, "hash_ids": {"history": [5]}, "session_id": ""}
{"timestamp": 3, "input_length": 8, "output_length": 1, "hash_ids": {"history": [5]}, "session_id": ""}
`
	tables := maps.Clone(ragTables)
	tables["2_passages"], tables["3_history"] = `{"passage_id": 5, "token_length": 4}`, `{"history_id": 5, "token_length": 4}`
	got := collect(t, ragPulse(rows, tables).Requests())
	if got[0].Prefix[0] == got[1].Prefix[0] || got[1].Prefix[0] != got[2].Prefix[0] {
		t.Errorf("prefixes %v, %v, %v", got[0].Prefix, got[1].Prefix, got[2].Prefix)
	}
}

func TestRAGPulseRows(t *testing.T) {
	var got []workload.RAGRow
	for r, err := range ragPulse(ragRows, ragTables).Rows() {
		if err != nil {
			t.Fatal(err)
		}
		r.Parts = slices.Clone(r.Parts)
		got = append(got, r)
	}
	want := []workload.RAGRow{
		{At: 82 * time.Second, Prompt: 20, Output: 192, Session: "a-1", Parts: []workload.RAGPart{
			{workload.SystemPrompt, 1, 8}, {workload.SystemPrompt, 2, 5}, {workload.Passages, 7, 3}, {workload.UserInput, 9, 0}}},
		{At: 93 * time.Second, Prompt: 16, Output: 86, Session: "b", Parts: []workload.RAGPart{
			{workload.SystemPrompt, 1, 8}, {workload.SystemPrompt, 2, 5}, {workload.History, 3, 3}}},
		{At: 93 * time.Second, Prompt: 30, Output: 5, Session: "a-1", Parts: []workload.RAGPart{
			{workload.SystemPrompt, 2, 5}, {workload.Passages, 7, 3}, {workload.Passages, 7, 3}, {workload.WebSearch, 4, 1}, {workload.UserInput, 9, 0}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if s := fmt.Sprint(workload.Passages, workload.RAGKind(9)); s != "passages_ids RAGKind(9)" {
		t.Errorf("kinds are printed as %s", s)
	}
}

func TestRAGPulseErrors(t *testing.T) {
	row := func(was, is string) string { return strings.Replace(ragRows, was, is, 1) }
	table := func(name, text string) map[string]string {
		tables := maps.Clone(ragTables)
		tables[name] = text
		return tables
	}
	for _, c := range []struct {
		name   string
		rows   string
		tables map[string]string
		want   string
	}{
		{"empty", "", ragTables, "trace: the file is empty"},
		{"timestamp", row(`"82"`, `"noon"`), ragTables, `trace:1: timestamp "noon": not a number of seconds, at least 0`},
		{"no session", row(`, "session_id": "a-1"`, ""), ragTables, "trace:1: the row has no session_id"},
		{"a key twice", row(`"output_length": 192`, `"output_length": 192, "output_length": 192`), ragTables, "trace:1: the row has output_length twice"},
		{"ids a list", row(`{"sys_prompt": [1, 2], "passages_ids": [7], "history": [], "web_search": [], "user_input": [9]}`, "[1, 2]"), ragTables,
			"trace:1: hash_ids [1, 2]: not an object of lists"},
		{"a list twice", row(`"history": []`, `"sys_prompt": []`), ragTables, "trace:1: hash_ids has sys_prompt twice"},
		{"an unknown list", row(`"history"`, `"tools"`), ragTables, `trace:1: hash_ids has a list "tools", which is none of a prompt`},
		{"no list", row(`"passages_ids": [7]`, `"passages_ids": 7`), ragTables, "trace:1: hash_ids.passages_ids 7: not a list of whole numbers"},
		{"an unknown id", row(`"passages_ids": [7]`, `"passages_ids": [8]`), ragTables, "trace:1: hash_ids.passages_ids has id 8, whose tokens file 2_passages does not tell"},
		{"parts too long", row(`"input_length": 20`, `"input_length": 15`), ragTables, "trace:1: the parts of hash_ids have 16 tokens, input_length is 15"},
		{"parts much too long", row(`"input_length": 20`, `"input_length": 2147483647`), table("2_passages", `{"passage_id": 7, "token_length": 16777215}`), "trace:1: the parts of hash_ids have 16777228 tokens, more than 16777216"},
		{"out of order", row(`"82"`, `"94"`), ragTables, "trace:2: timestamp \"93\" is before \"94\" of line 1 (Sort accepts that)"},
		{"an empty table", ragRows, table("3_history", ""), "3_history: the file is empty"},
		{"no id", ragRows, table("3_history", `{"token_length": 3}`), "3_history:1: the row has no history_id"},
		{"no length", ragRows, table("3_history", `{"history_id": 3}`), "3_history:1: the row has no token_length"},
		{"an id twice", ragRows, table("3_history", "{\"history_id\": 3, \"token_length\": 3}\n{\"history_id\": 3, \"token_length\": 3}"), "3_history:2: history_id 3 is there twice"},
		{"a large id", ragRows, table("3_history", `{"history_id": 68719476736, "token_length": 3}`), "3_history:1: history_id 68719476736: not a whole number below 68719476736"},
		{"a long part", ragRows, table("3_history", `{"history_id": 3, "token_length": 16777216}`), "3_history:1: token_length 16777216: not below 16777216"},
		{"a bad length", ragRows, table("3_history", `{"history_id": 3, "token_length": -1}`), "3_history:1: token_length -1: not a whole number"},
	} {
		p := ragPulse(c.rows, c.tables)
		if _, err := workload.Collect(p.Requests()); !strings.HasPrefix(errText(err), "workload: "+c.want) {
			t.Errorf("%s: error %v, want %s", c.name, err, c.want)
		}
	}
	for want, p := range map[string]workload.RAGPulse{
		"workload: RAGPulse.BlockTokens is -1, want 0 to 2147483647":                                                        {BlockTokens: -1},
		"workload: RAGPulse.Spread is -1ns, want at least 0":                                                                {Spread: -1},
		"workload: trace: the name has no 0_trace to find the file 1_sys_prompt by (NoPrefix reads without, Side names it)": {Path: "trace", Open: memory(ragRows)},
	} {
		if _, err := workload.Collect(p.Requests()); errText(err) != want {
			t.Errorf("error %v, want %s", err, want)
		}
		for _, err := range p.Rows() {
			if errText(err) != want {
				t.Errorf("error of Rows %v, want %s", err, want)
			}
		}
	}
}

// The files of lengths are beside that of the rows, zipped or not.
func TestRAGPulseFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("my_0_trace.jsonl", ragRows)
	p := workload.RAGPulse{Path: filepath.Join(dir, "my_0_trace.jsonl")}
	if _, err := workload.Collect(p.Requests()); !errors.Is(err, os.ErrNotExist) || !strings.Contains(errText(err), "my_1_sys_prompt.jsonl") ||
		!strings.Contains(errText(err), "(NoPrefix reads without)") {
		t.Errorf("without files of lengths: %v", err)
	}
	for name, text := range ragTables {
		if name == "2_passages" {
			write("my_"+name+".jsonl.gz", zip(t, text))
		} else {
			write("my_"+name+".jsonl", text)
		}
	}
	if got := collect(t, p.Requests()); len(got) != 3 || got[0].PrefixBlock != sim.DefaultBlockTokens || len(got[0].Prefix) != 1 {
		t.Errorf("requests %+v", got)
	}
	lengths, err := workload.ReadRAGLengths(filepath.Join(dir, "my_2_passages.jsonl.gz"))
	if diff := cmp.Diff(map[uint64]int{7: 3}, lengths); diff != "" || err != nil {
		t.Errorf("error %v, lengths (-want +got):\n%s", err, diff)
	}
	write("none", `{"id": 7, "token_length": 3}`)
	if _, err := workload.ReadRAGLengths(filepath.Join(dir, "none")); !strings.Contains(errText(err), "none:1: the row has no id of a part, such as passage_id") {
		t.Errorf("a file without ids: %v", err)
	}
}

// The public trace has one row out of order, and all parts of all prompts.
func TestRAGPulseRecording(t *testing.T) {
	var counts workload.Counts
	p := workload.RAGPulse{Path: shared(t, "recordings/ragpulse_0_trace.jsonl.gz"), Counts: &counts}
	if _, err := workload.Collect(p.Requests()); !errors.Is(err, workload.ErrOrder) {
		t.Errorf("in order: %v", err)
	}
	p.Sort = true
	requests := collect(t, p.Requests())
	if want := (workload.Counts{Read: 7106, Emitted: 7106, OutOfOrder: 1}); counts != want {
		t.Errorf("counts %+v, want %+v", counts, want)
	}
	byID := make([]sim.Request, len(requests))
	for _, q := range requests {
		byID[q.ID] = q
	}
	extra := map[int]int{} // tokens between the parts
	i := 0
	for r, err := range p.Rows() {
		if err != nil {
			t.Fatal(err)
		}
		sum := 0
		for _, part := range r.Parts {
			sum += part.Tokens
		}
		if n := len(byID[i].Prefix); n != sum/16 || byID[i].Prompt != r.Prompt {
			t.Errorf("row %d has parts of %d tokens and %d blocks of 16", i, sum, n)
		}
		extra[r.Prompt-sum]++
		i++
	}
	if diff := cmp.Diff(map[int]int{6: 371, 7: 917, 8: 1636, 9: 1377, 10: 867, 11: 402, 12: 1536}, extra); diff != "" {
		t.Errorf("tokens between the parts (-want +got):\n%s", diff)
	}
}

func FuzzRAGPulse(f *testing.F) {
	f.Add([]byte(ragRows), []byte(ragTables["2_passages"]), false, 4)
	f.Add([]byte(`{"timestamp":1.5e0,"input_length":16777,"output_length":1,"hash_ids":{"passages_ids":[7,7]},"session_id":""}`),
		[]byte(`{"passage_id":7,"token_length":8388}`), true, 1)
	long := regexp.MustCompile(`[0-9]{6}`) // tokens, each of which takes time
	f.Fuzz(func(t *testing.T, rows, passages []byte, skip bool, block int) {
		if long.Match(passages) {
			return
		}
		tables := maps.Clone(ragTables)
		tables["2_passages"] = string(passages)
		var counts workload.Counts
		p := ragPulse(string(rows), tables)
		p.Path, p.Sort, p.SkipMalformed, p.BlockTokens, p.Counts = "trace", skip, skip, 1+block&0xfff, &counts
		for _, err := range p.Requests() {
			if err != nil && strings.Contains(err.Error(), "2_passages") {
				return // names that file
			}
		}
		checkReading(t, p.Requests(), &counts)
	})
}
