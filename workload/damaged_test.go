package workload_test

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"servesim/sim"
	"servesim/workload"
)

// memory opens a text.
func memory(data string) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(data)), nil }
}

// reading says how a reader is to read a text under the name "trace".
type reading struct {
	sort, skip bool
	counts     *workload.Counts
}

// format is one that the readers of rows know, with an example of it.
type format struct {
	name    string
	example string // a file of shared data; the first rows of it
	header  bool
	read    func(data string, o reading) iter.Seq2[sim.Request, error]
	// zero replaces the prompt of a row by one of no tokens, bad by a text.
	// They are pairs of old and new.
	zeroPrompt, zeroOutput, bad [2]string
	// fault is what the error about bad says behind the line.
	fault string
}

// ragSide gives every number in a text, taken as an id of any kind, one token.
func ragSide(data string) func(name string) (io.ReadCloser, error) {
	ids := map[string]bool{}
	for _, id := range regexp.MustCompile(`[0-9]+`).FindAllString(data, -1) {
		if len(id) < 9 {
			ids[strings.TrimLeft(id[:len(id)-1], "0")+id[len(id)-1:]] = true
		}
	}
	return func(name string) (io.ReadCloser, error) {
		kind := map[string]string{"1_sys_prompt": "sys_prompt_id", "2_passages": "passage_id", "3_history": "history_id",
			"4_user_input": "user_input_id", "5_web_search": "web_search_id"}[name]
		var b strings.Builder
		for id := range ids {
			fmt.Fprintf(&b, "{\"%s\": %s, \"token_length\": 1}\n", kind, id)
		}
		return io.NopCloser(strings.NewReader(b.String())), nil
	}
}

var damagedFormats = []format{
	{
		name: "azure 2023", example: "format_examples/azure_2023.csv", header: true, read: readAzure,
		zeroPrompt: [2]string{",396,", ",0,"}, zeroOutput: [2]string{",109", ",0"}, bad: [2]string{",396,", ",3x6,"},
		fault: `ContextTokens "3x6": not a whole number`,
	},
	{
		name: "azure 2024", example: "format_examples/azure_2024_style.csv", header: true, read: readAzure,
		zeroPrompt: [2]string{",584,", ",0,"}, zeroOutput: [2]string{"584,3", "584,0"}, bad: [2]string{"00:00:01+00:00", "00:00:01+0"},
		fault: `TIMESTAMP "2024-05-12 00:00:01+0": extra text`,
	},
	{
		name: "azure 2025", example: "format_examples/azure_2025_lmm_style.csv", header: true,
		read: func(data string, o reading) iter.Seq2[sim.Request, error] {
			return workload.AzureCSV{Path: "trace", Open: memory(data), KeepImages: true, Sort: o.sort, SkipMalformed: o.skip, Counts: o.counts}.Requests()
		},
		zeroPrompt: [2]string{",949,", ",0,"}, zeroOutput: [2]string{",126", ",0"}, bad: [2]string{"Z,1,", "Z,one,"},
		fault: `NumImages "one": not a whole number`,
	},
	{
		name: "burstgpt 6", example: "format_examples/burstgpt_6col_style.csv", header: true, read: readBurstGPT,
		zeroPrompt: [2]string{",1087,", ",0,"}, zeroOutput: [2]string{",230,", ",0,"}, bad: [2]string{",1087,", ",1087 tokens,"},
		fault: `Request tokens "1087 tokens": not a whole number`,
	},
	{
		name: "burstgpt 8", example: "format_examples/burstgpt_8col_style.csv", header: true, read: readBurstGPT,
		zeroPrompt: [2]string{",36,", ",0,"}, zeroOutput: [2]string{",29,", ",0,"}, bad: [2]string{"19440161.0", "19440161.0s"},
		fault: `Timestamp "19440161.0s": not a number of seconds`,
	},
	{
		name: "mooncake", example: "format_examples/mooncake.jsonl",
		read: func(data string, o reading) iter.Seq2[sim.Request, error] {
			return workload.Mooncake{Path: "trace", Open: memory(data), Sort: o.sort, SkipMalformed: o.skip, Counts: o.counts}.Requests()
		},
		zeroPrompt: [2]string{`1600, "output_length": 12, "hash_ids": [0, 1, 3, 4]`, `0, "output_length": 12, "hash_ids": []`},
		zeroOutput: [2]string{`"output_length": 12`, `"output_length": 0`}, bad: [2]string{"1600", `"1600 tokens"`},
		fault: `input_length "1600 tokens": not a whole number`,
	},
	{
		name: "bailian", read: func(data string, o reading) iter.Seq2[sim.Request, error] {
			m := workload.QwenBailian("trace")
			m.Open, m.Sort, m.SkipMalformed, m.Counts = memory(data), o.sort, o.skip, o.counts
			return m.Requests()
		},
		example:    "bailian",
		zeroPrompt: [2]string{`521, "output_length": 132, "type": "text", "turn": 2, "hash_ids": [1`, `0, "output_length": 132, "type": "text", "turn": 2, "hash_ids": []}` + "\n" + `{"timestamp": 80, "input_length": 521, "output_length": 132, "hash_ids": [1`},
		zeroOutput: [2]string{`"output_length": 132`, `"output_length": 0`}, bad: [2]string{"62.114", `"a minute"`},
		fault: `timestamp "a minute": not a number of seconds`,
	},
	{
		name: "ragpulse", example: "ragpulse_0_trace.jsonl.gz",
		read: func(data string, o reading) iter.Seq2[sim.Request, error] {
			return workload.RAGPulse{Path: "trace", Open: memory(data), Side: ragIDs, Sort: o.sort, SkipMalformed: o.skip, Counts: o.counts}.Requests()
		},
		zeroPrompt: [2]string{`"input_length": 3167, "output_length": 86, "hash_ids": {"sys_prompt": [8302, 14332, 15198], "passages_ids": [6124, 7392, 7393, 7374, 8016, 5443], "history": [15200], "web_search": [], "user_input": [26922]}`,
			`"input_length": 0, "output_length": 86, "hash_ids": {}`},
		zeroOutput: [2]string{`"output_length": 86`, `"output_length": "0"`}, bad: [2]string{`3167`, `"?"`},
		fault: `input_length "?": not a whole number`,
	},
	{
		name: "lengths", example: "etalon_sharegpt_8k_filtered_stats_llama2_tokenizer.csv.gz", header: true,
		read: func(data string, o reading) iter.Seq2[sim.Request, error] {
			return workload.LengthCSV{Path: "trace", Open: memory(data), Sort: o.sort, SkipMalformed: o.skip, Counts: o.counts}.Requests()
		},
		zeroPrompt: [2]string{"\n290,", "\n0,"}, zeroOutput: [2]string{",905,", ",0,"}, bad: [2]string{",905,", ",,"},
		fault: `num_decode_tokens "": not a whole number`,
	},
}

// ragIDs tells the tokens of the ids in the first rows of the public trace.
var ragIDs = ragSide("8302 14332 15199 15198 15197 15200 20109 7398 7370 7098 6967 7405 7298 26923 6124 7392 7393 7374 8016 5443 26922 4682 707 7728 1144 6462 1627 26921")

func readAzure(data string, o reading) iter.Seq2[sim.Request, error] {
	return workload.AzureCSV{Path: "trace", Open: memory(data), Sort: o.sort, SkipMalformed: o.skip, Counts: o.counts}.Requests()
}

func readBurstGPT(data string, o reading) iter.Seq2[sim.Request, error] {
	return workload.BurstGPT{Path: "trace", Open: memory(data), Sort: o.sort, SkipMalformed: o.skip, Counts: o.counts}.Requests()
}

// three returns the example with three rows at most, which are at different
// times where the format has times: LF, with a last newline.
func (f format) three(t *testing.T) string {
	t.Helper()
	if f.example == "bailian" {
		return `{"chat_id": 55, "parent_chat_id": -1, "timestamp": 61.114, "input_length": 33, "output_length": 7, "type": "text", "turn": 1, "hash_ids": [1, 2, 3]}
{"chat_id": 159, "parent_chat_id": 55, "timestamp": 62.114, "input_length": 521, "output_length": 132, "type": "text", "turn": 2, "hash_ids": [1` +
			strings.Repeat(", 5", 32) + "]}\n"
	}
	data := sharedText(t, "recordings/"+f.example)
	lines := strings.SplitAfter(strings.TrimSpace(strings.ReplaceAll(data, "\r", "")), "\n")
	rows := 3
	if f.header {
		rows++
	}
	text := strings.Join(lines[:min(rows, len(lines))], "")
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text
}

// rows splits a text into header, if there is one, and rows.
func (f format) rows(data string) (header string, rows []string) {
	rows = strings.SplitAfter(strings.TrimSuffix(data, "\n"), "\n")
	rows[len(rows)-1] += "\n"
	if f.header {
		return rows[0], rows[1:]
	}
	return "", rows
}

// What is damaged without loss is read as if it were not.
func TestHarmlessDamage(t *testing.T) {
	for _, f := range damagedFormats {
		data := f.three(t)
		header, rows := f.rows(data)
		want := collect(t, f.read(data, reading{}))
		if len(want) != len(rows) || len(rows) < 2 {
			t.Fatalf("%s: %d requests of %d rows", f.name, len(want), len(rows))
		}
		damaged := map[string]string{
			"carriage returns":       strings.ReplaceAll(data, "\n", "\r\n"),
			"no last newline":        strings.TrimSuffix(data, "\n"),
			"blank lines at the end": data + "\n  \n\n",
			"blank lines between":    strings.ReplaceAll(data, "\n", "\n\n"),
			"a byte order mark":      "\ufeff" + data,
			"gzip":                   zip(t, data),
			"gzip in two members":    zip(t, header+rows[0]) + zip(t, strings.Join(rows[1:], "")),
		}
		if f.header {
			damaged["columns in reverse order"] = reverseColumns(data)
			damaged["one column more"] = addColumn(data)
			damaged["quoted fields"] = quoteFields(data)
		} else {
			damaged["keys in another order"] = reverseKeys(data)
			damaged["numbers in quotes"] = quoteNumbers(data)
		}
		for name, text := range damaged {
			var counts workload.Counts
			got, err := workload.Collect(f.read(text, reading{counts: &counts}))
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("%s, %s: error %v, requests (-want +got):\n%s", f.name, name, err, diff)
			}
			if wantCounts := (workload.Counts{Read: len(rows), Emitted: len(rows)}); counts != wantCounts {
				t.Errorf("%s, %s: counts %+v", f.name, name, counts)
			}
		}
	}
}

// Damage that loses something is refused, or counted where the reader is asked
// to go on.
func TestHarmfulDamage(t *testing.T) {
	for _, f := range damagedFormats {
		data := f.three(t)
		header, rows := f.rows(data)
		want := collect(t, f.read(data, reading{}))
		n := len(rows)
		line := 2 // of the second row
		if f.header {
			line++
		}

		twice := header + strings.Join(append(slices.Clone(rows[:1]), rows...), "")
		if got := collect(t, f.read(twice, reading{})); len(got) != n+1 || got[0].Arrival != got[1].Arrival || got[0].Prompt != got[1].Prompt {
			t.Errorf("%s, a row twice: %d requests of %d rows, want them all", f.name, len(got), n+1)
		}

		reversed := slices.Clone(rows)
		slices.Reverse(reversed)
		reversedData := header + strings.Join(reversed, "")
		var counts workload.Counts
		if f.name != "lengths" { // which have no times
			got, err := workload.Collect(f.read(reversedData, reading{counts: &counts}))
			if len(got) != 1 || !errors.Is(err, workload.ErrOrder) || !strings.Contains(errText(err), fmt.Sprintf("trace:%d: ", line)) {
				t.Errorf("%s, reversed: %d requests, then %v", f.name, len(got), err)
			}
			got = collect(t, f.read(reversedData, reading{sort: true, counts: &counts}))
			if len(got) != n || counts != (workload.Counts{Read: n, Emitted: n, OutOfOrder: n - 1}) {
				t.Errorf("%s, reversed and sorted: %d requests, counts %+v", f.name, len(got), counts)
			}
			for i := range got {
				got[i].ID = n - 1 - got[i].ID
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, reversed and sorted (-want +got):\n%s", f.name, diff)
			}
		}

		for _, zero := range []struct {
			with [2]string
			want workload.Counts
		}{
			{f.zeroPrompt, workload.Counts{ZeroPrompt: 1}}, {f.zeroOutput, workload.Counts{ZeroOutput: 1}},
		} {
			text := replaceOnce(t, f.name, data, zero.with)
			got := collect(t, f.read(text, reading{counts: &counts}))
			zero.want.Read = counts.Read
			zero.want.Emitted = counts.Read - 1
			if len(got) != zero.want.Emitted || counts != zero.want || counts.Read < n {
				t.Errorf("%s, %q for %q: %d requests, counts %+v", f.name, zero.with[1], zero.with[0], len(got), counts)
			}
		}

		text := replaceOnce(t, f.name, data, f.bad)
		got, err := workload.Collect(f.read(text, reading{counts: &counts}))
		if len(got) != 1 || !strings.Contains(errText(err), fmt.Sprintf("workload: trace:%d: %s", line, f.fault)) {
			t.Errorf("%s, text in a number: %d requests, then %v, want line %d: %s", f.name, len(got), err, line, f.fault)
		}
		if got := collect(t, f.read(text, reading{skip: true, counts: &counts})); len(got) != n-1 || counts != (workload.Counts{Read: n, Emitted: n - 1, Malformed: 1}) {
			t.Errorf("%s, text in a number, skipped: %d requests, counts %+v", f.name, len(got), counts)
		}

		zipped := zip(t, header+strings.Repeat(rows[0], 3000))
		for _, cut := range []int{5, len(zipped) / 2, len(zipped) - 9, len(zipped) - 3} {
			got, err := workload.Collect(f.read(zipped[:cut], reading{skip: true, counts: &counts}))
			if !errors.Is(err, io.ErrUnexpectedEOF) || !strings.HasPrefix(errText(err), "workload: trace") || counts.Read != counts.Emitted+counts.Dropped() {
				t.Errorf("%s, gzip cut at %d of %d: %d requests, then %v, counts %+v", f.name, cut, len(zipped), len(got), err, counts)
			}
		}
	}
}

func replaceOnce(t *testing.T, name, data string, with [2]string) string {
	t.Helper()
	if !strings.Contains(data, with[0]) {
		t.Fatalf("%s: the example has no %q:\n%s", name, with[0], data)
	}
	return strings.Replace(data, with[0], with[1], 1)
}

func eachRow(data string, do func(i int, row string) string) string {
	var b strings.Builder
	for i, row := range strings.Split(strings.TrimSuffix(data, "\n"), "\n") {
		b.WriteString(do(i, row) + "\n")
	}
	return b.String()
}

func reverseColumns(data string) string {
	return eachRow(data, func(_ int, row string) string {
		fields := strings.Split(row, ",")
		slices.Reverse(fields)
		return strings.Join(fields, ",")
	})
}

func addColumn(data string) string {
	return eachRow(data, func(i int, row string) string {
		if i == 0 {
			return "a note," + row
		}
		return `"one, two",` + row
	})
}

func quoteFields(data string) string {
	return eachRow(data, func(_ int, row string) string { return `"` + strings.ReplaceAll(row, ",", `","`) + `"` })
}

// reverseKeys puts the first key of each object last.
func reverseKeys(data string) string {
	return eachRow(data, func(_ int, row string) string {
		first, rest, _ := strings.Cut(strings.TrimPrefix(row, "{"), ", ")
		return "{" + strings.TrimSuffix(rest, "}") + ", " + first + "}"
	})
}

// quoteNumbers puts the lengths and timestamps into quotes.
func quoteNumbers(data string) string {
	return eachRow(data, func(_ int, row string) string {
		for _, key := range []string{"timestamp", "input_length", "output_length"} {
			before, after, _ := strings.Cut(row, `"`+key+`": `)
			end := strings.IndexAny(after, ",}")
			number := strings.Trim(after[:end], `"`)
			row = before + `"` + key + `": "` + number + `"` + after[end:]
		}
		return row
	})
}
