package workload_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"servesim/sim"
	"servesim/workload"
)

// azure is a recording in memory under the name "trace.csv".
func azure(data string) workload.AzureCSV {
	return workload.AzureCSV{
		Path: "trace.csv",
		Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(data)), nil },
	}
}

func zip(t testing.TB, s string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(s)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

const azure2023 = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n" +
	"2023-11-16 18:15:46.6805900,374,44\r\n" +
	"2023-11-16 18:15:50.9951690,396,109"

// Arrivals of the two rows: 0 and 4.3145790 s.
var azure2023Requests = []sim.Request{
	{ID: 0, Arrival: 0, Prompt: 374, Output: 44},
	{ID: 1, Arrival: 4_314_579_000, Prompt: 396, Output: 109},
}

func TestAzureNotations(t *testing.T) {
	two := azure2023Requests
	for _, c := range []struct {
		name, data string
		want       []sim.Request
	}{
		{"2023", azure2023, two},
		{"line feeds, last newline, blank lines", strings.ReplaceAll(azure2023, "\r\n", "\n\n") + "\n \n\n", two},
		{"byte order mark", "\ufeff" + azure2023, two},
		{"gzip", zip(t, azure2023), two},
		{"gzip in two members with a byte order mark", zip(t, "\ufeff"+azure2023[:60]) + zip(t, azure2023[60:]), two},
		{"columns in another order, one more", "GeneratedTokens,note,TIMESTAMP,ContextTokens\n" +
			"44,\"a, b\",2023-11-16 18:15:46.6805900,374\n109,,2023-11-16 18:15:50.9951690,396\n", two},
		{"quoted", "\"TIMESTAMP\",\"ContextTokens\",\"GeneratedTokens\"\n" +
			"\"2023-11-16 18:15:46.6805900\",\"374\",\"44\"\n2023-11-16 18:15:50.9951690,\"396\",109\n", two},
		{"blanks around fields", "TIMESTAMP, ContextTokens, GeneratedTokens\n" +
			"2023-11-16 18:15:46.6805900 , 374, 44\n2023-11-16 18:15:50.9951690, 396, 109\n", two},
		{"2024, with and without a fraction", "TIMESTAMP,ContextTokens,GeneratedTokens\n" +
			"2024-05-12 00:00:00.001163+00:00,1452,3\n2024-05-12 00:00:01+00:00,584,3\n",
			[]sim.Request{{Prompt: 1452, Output: 3}, {ID: 1, Arrival: 998_837_000, Prompt: 584, Output: 3}}},
		{"2025, no images", "TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\n" +
			"2024-10-15T12:00:00.269Z,0,770,491\n2024-10-15T12:00:05.819Z,0,949,126\n",
			[]sim.Request{{Prompt: 770, Output: 491}, {ID: 1, Arrival: 5_550_000_000, Prompt: 949, Output: 126}}},
		{"equal timestamps", "TIMESTAMP,ContextTokens,GeneratedTokens\n" +
			"2024-05-12 00:00:00Z,1,2\n2024-05-12 00:00:00Z,3,4\n",
			[]sim.Request{{Prompt: 1, Output: 2}, {ID: 1, Prompt: 3, Output: 4}}},
	} {
		a := azure(c.data)
		var counts workload.Counts
		a.Counts = &counts
		for range 2 { // each iteration opens the file anew
			if diff := cmp.Diff(c.want, collect(t, a.Requests())); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.name, diff)
			}
			if want := (workload.Counts{Read: 2, Emitted: 2}); counts != want {
				t.Errorf("%s: counts %+v, want %+v", c.name, counts, want)
			}
		}
		a.Open = func() (io.ReadCloser, error) {
			return io.NopCloser(iotest.OneByteReader(strings.NewReader(c.data))), nil
		}
		if diff := cmp.Diff(c.want, collect(t, a.Requests())); diff != "" {
			t.Errorf("%s, byte by byte (-want +got):\n%s", c.name, diff)
		}
	}
}

const azureDrops = "TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\n" +
	"2024-10-15T12:00:00Z,2,100,10\n" + // images: dropped, but still the origin
	"2024-10-15T12:00:01Z,0,0,10\n" +
	"2024-10-15T12:00:02Z,0,100,0\n" +
	"2024-10-15T12:00:03Z,0,0,0\n" +
	"2024-10-15T12:00:04Z,0,7,8\n"

func TestAzureDrops(t *testing.T) {
	for _, c := range []struct {
		keepImages bool
		want       []sim.Request
		counts     workload.Counts
		dropped    int
	}{
		{false, []sim.Request{{ID: 4, Arrival: 4e9, Prompt: 7, Output: 8}},
			workload.Counts{Read: 5, Emitted: 1, ZeroPrompt: 2, ZeroOutput: 1, Images: 1}, 4},
		{true, []sim.Request{{Prompt: 100, Output: 10}, {ID: 4, Arrival: 4e9, Prompt: 7, Output: 8}},
			workload.Counts{Read: 5, Emitted: 2, ZeroPrompt: 2, ZeroOutput: 1}, 3},
	} {
		for _, sort := range []bool{false, true} {
			var counts workload.Counts
			a := azure(azureDrops)
			a.KeepImages, a.Sort, a.Counts = c.keepImages, sort, &counts
			if diff := cmp.Diff(c.want, collect(t, a.Requests())); diff != "" {
				t.Errorf("keep %v, sort %v (-want +got):\n%s", c.keepImages, sort, diff)
			}
			if counts != c.counts || counts.Dropped() != c.dropped {
				t.Errorf("keep %v, sort %v: %+v, %d dropped, want %+v, %d", c.keepImages, sort, counts, counts.Dropped(), c.counts, c.dropped)
			}
		}
	}
}

func TestAzureSort(t *testing.T) {
	a := azure("TIMESTAMP,ContextTokens,GeneratedTokens\n" +
		"2024-05-12 00:00:05Z,1,1\n2024-05-12 00:00:03Z,2,2\n2024-05-12 00:00:05Z,3,3\n2024-05-12 00:00:04Z,4,4\n")
	var counts workload.Counts
	a.Counts = &counts
	got, err := workload.Collect(a.Requests())
	want := `workload: trace.csv:3: TIMESTAMP 2024-05-12 00:00:03Z is before 2024-05-12 00:00:05Z of line 2 (Sort accepts that)`
	if len(got) != 1 || errText(err) != want || !errors.Is(err, workload.ErrOrder) {
		t.Errorf("in order: %d requests, then %v, want 1, then %s, an ErrOrder", len(got), err, want)
	}
	if want := (workload.Counts{Read: 1, Emitted: 1}); counts != want {
		t.Errorf("counts at the error: %+v, want %+v", counts, want)
	}
	a.Sort = true
	wantRequests := []sim.Request{
		{ID: 1, Prompt: 2, Output: 2}, {ID: 3, Arrival: 1e9, Prompt: 4, Output: 4},
		{ID: 0, Arrival: 2e9, Prompt: 1, Output: 1}, {ID: 2, Arrival: 2e9, Prompt: 3, Output: 3},
	}
	if diff := cmp.Diff(wantRequests, collect(t, a.Requests())); diff != "" {
		t.Errorf("sorted (-want +got):\n%s", diff)
	}
	if want := (workload.Counts{Read: 4, Emitted: 4, OutOfOrder: 2}); counts != want {
		t.Errorf("counts %+v, want %+v", counts, want)
	}
}

// Rows that cannot be read are dropped on request, those of a cut file and a
// wrong header never. The first row that can be read is the origin.
func TestAzureSkipMalformed(t *testing.T) {
	const header = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
	const data = header + "yesterday,1,1\n2024-05-12 00:00:05Z,1,1\n2024-05-12 00:00:06Z,many,1\n2024-05-12 00:00:07Z,1\n2024-05-12 00:00:08Z,2,2\n"
	for _, sort := range []bool{false, true} {
		var counts workload.Counts
		a := azure(data)
		a.SkipMalformed, a.Sort, a.Counts = true, sort, &counts
		want := []sim.Request{{ID: 1, Prompt: 1, Output: 1}, {ID: 4, Arrival: 3e9, Prompt: 2, Output: 2}}
		if diff := cmp.Diff(want, collect(t, a.Requests())); diff != "" {
			t.Errorf("sort %v (-want +got):\n%s", sort, diff)
		}
		if want := (workload.Counts{Read: 5, Emitted: 2, Malformed: 3}); counts != want || counts.Dropped() != 3 {
			t.Errorf("sort %v: counts %+v, want %+v", sort, counts, want)
		}
	}
	for _, data := range []string{header, "a,b\n1,2\n", zip(t, data)[:60], header + "2024-05-12 00:00:05Z,1,1\n2024-05-12 00:00:04Z,1,1\n"} {
		a := azure(data)
		a.SkipMalformed = true
		if got, err := workload.Collect(a.Requests()); err == nil {
			t.Errorf("%q: %d requests and no error", data, len(got))
		}
	}
}

func TestAzureErrors(t *testing.T) {
	const header = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
	const row = "2024-05-12 00:00:00Z,1,1\n"
	zipped := zip(t, header+strings.Repeat(row, 1000))
	for _, c := range []struct {
		name, data string
		n          int // requests before the error
		want       string
	}{
		{"empty", "", 0, "trace.csv: the file is empty"},
		{"empty inside gzip", zip(t, ""), 0, "trace.csv: the file is empty"},
		{"only a byte order mark", "\ufeff", 0, "trace.csv: the file is empty"},
		{"only a header", header, 0, "trace.csv: no rows"},
		{"only a header, blank lines", header + "\n\n", 0, "trace.csv: no rows"},
		{"wrong header", "Timestamp,Model,Request tokens\n5,ChatGPT,472\n", 0,
			`trace.csv:1: the header is "Timestamp,Model,Request tokens", want the columns TIMESTAMP, ContextTokens and GeneratedTokens`},
		{"no header", row, 0, `trace.csv:1: the header is "2024-05-12 00:00:00Z,1,1", want`},
		{"column twice", "TIMESTAMP,ContextTokens,ContextTokens,GeneratedTokens\n", 0, "trace.csv:1: the header names ContextTokens twice"},
		{"binary", "\x00\xff\xfe\n", 0, "trace.csv:1: the header is"},
		{"bad timestamp", header + row + "2024-13-12 00:00:00Z,1,1\n", 1, `trace.csv:3: TIMESTAMP "2024-13-12 00:00:00Z": month out of range`},
		{"no timestamp", header + ",1,1\n", 0, `trace.csv:2: TIMESTAMP "": not a timestamp such as`},
		{"bad prompt", header + row + row + "2024-05-12 00:00:00Z,12x,1\n", 2, `trace.csv:4: ContextTokens "12x": not a whole number from 0 to 2147483647`},
		{"negative prompt", header + "2024-05-12 00:00:00Z,-1,1\n", 0, `trace.csv:2: ContextTokens "-1": not a whole`},
		{"fraction", header + "2024-05-12 00:00:00Z,1.5,1\n", 0, `trace.csv:2: ContextTokens "1.5": not a whole`},
		{"no output", header + "2024-05-12 00:00:00Z,1,\n", 0, `trace.csv:2: GeneratedTokens "": not a whole`},
		{"huge output", header + "2024-05-12 00:00:00Z,1,2147483648\n", 0, `trace.csv:2: GeneratedTokens "2147483648": not a whole`},
		{"very long output", header + "2024-05-12 00:00:00Z,1,99999999999999999999\n", 0, `trace.csv:2: GeneratedTokens "99999999999999999999": not`},
		{"images", "NumImages," + header + "many," + row, 0, `trace.csv:2: NumImages "many": not a whole`},
		{"missing field", header + row + "2024-05-12 00:00:00Z,1\n", 1, "trace.csv:3: the row has 2 fields, the header 3"},
		{"extra field", header + "2024-05-12 00:00:00Z,1,1,1\n", 0, "trace.csv:2: the row has 4 fields, the header 3"},
		{"open quote", header + "\"2024-05-12 00:00:00Z,1,1\n", 0, "trace.csv:2: a quoted field does not end"},
		{"text behind a quote", header + "\"2024-05-12 00:00:00Z\"x,1,1\n", 0, "trace.csv:2: a quoted field does not end"},
		{"endless line", header + row + strings.Repeat("x", 70_000), 1, "trace.csv:3: the line is longer than 65536 bytes"},
		{"more than 292 years", header + "1700-01-01 00:00:00Z,1,1\n2200-01-01 00:00:00Z,1,1\n", 1, "trace.csv:3: TIMESTAMP is more than 292 years after the first"},
		{"gzip header cut", zipped[:5], 0, "trace.csv: unexpected EOF"},
		{"gzip cut", zipped[:len(zipped)-20], -1, "unexpected EOF"},
		{"gzip without its checksum", zipped[:len(zipped)-8], -1, "unexpected EOF"},
		{"gzip with a wrong checksum", zipped[:len(zipped)-8] + "checksum", -1, "checksum"},
		{"text behind gzip", zipped + "something else", 1000, "trace.csv:1002: gzip: invalid header"},
	} {
		var counts workload.Counts
		a := azure(c.data)
		a.Counts = &counts
		got, err := workload.Collect(a.Requests())
		if c.n >= 0 && len(got) != c.n || !strings.HasPrefix(errText(err), "workload: trace.csv:") || !strings.Contains(errText(err), c.want) {
			t.Errorf("%s: %d requests, then %v, want %d, then %q", c.name, len(got), err, c.n, c.want)
		}
		if counts.Emitted != len(got) || counts.Read != counts.Emitted+counts.Dropped() {
			t.Errorf("%s: counts %+v after %d requests", c.name, counts, len(got))
		}
		a.Sort = true
		if got, err := workload.Collect(a.Requests()); err == nil || c.n != 1 && len(got) != 0 {
			t.Errorf("%s, sorted: %d requests, then %v, want an error", c.name, len(got), err)
		}
	}
}

// An error of the input reaches the consumer where it happens, wrapped.
func TestAzureReadError(t *testing.T) {
	broken := errors.New("broken disk")
	a := workload.AzureCSV{Path: "trace.csv", Open: func() (io.ReadCloser, error) {
		return io.NopCloser(io.MultiReader(strings.NewReader(azure2023+"\r\n2023-11-16 18:1"), iotest.ErrReader(broken))), nil
	}}
	got, err := workload.Collect(a.Requests())
	if diff := cmp.Diff(azure2023Requests, got); diff != "" || !errors.Is(err, broken) || !strings.Contains(errText(err), "trace.csv:4: ") {
		t.Errorf("error %v; requests before it (-want +got):\n%s", err, diff)
	}
	a.Open = func() (io.ReadCloser, error) { return nil, broken }
	if _, err := workload.Collect(a.Requests()); !errors.Is(err, broken) {
		t.Errorf("error of Open became %v", err)
	}
	a = workload.AzureCSV{Path: filepath.Join(t.TempDir(), "absent.csv")}
	if _, err := workload.Collect(a.Requests()); !errors.Is(err, os.ErrNotExist) || !strings.Contains(errText(err), "absent.csv") {
		t.Errorf("error of an absent file is %v", err)
	}
}

// closing reports whether it was closed.
type closing struct {
	io.Reader
	closed *int
}

func (c closing) Close() error { *c.closed++; return nil }

func TestAzureClosesItsInput(t *testing.T) {
	closed := 0
	a := workload.AzureCSV{Path: "trace.csv", Open: func() (io.ReadCloser, error) {
		return closing{strings.NewReader(azure2023), &closed}, nil
	}}
	for range a.Requests() {
		break
	}
	collect(t, a.Requests())
	if closed != 2 {
		t.Errorf("closed %d times in 2 iterations", closed)
	}
}

func TestAzureFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.csv.gz")
	if err := os.WriteFile(path, []byte(zip(t, azure2023)), 0o600); err != nil {
		t.Fatal(err)
	}
	a := workload.AzureCSV{Path: path, Class: sim.Class{Name: "recorded"}}
	if diff := cmp.Diff(azure2023Requests, collect(t, a.Requests())); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]sim.Class{{Name: "recorded"}}, a.Classes()); diff != "" {
		t.Errorf("classes (-want +got):\n%s", diff)
	}
}

func TestAzureFormatExamples(t *testing.T) {
	for name, want := range map[string]workload.Counts{
		"azure_2023.csv":           {Read: 2, Emitted: 2},
		"azure_2024_style.csv":     {Read: 2, Emitted: 2},
		"azure_2025_lmm_style.csv": {Read: 2, Emitted: 1, Images: 1},
	} {
		var counts workload.Counts
		collect(t, workload.AzureCSV{Path: shared(t, "recordings/format_examples/"+name), Counts: &counts}.Requests())
		if counts != want {
			t.Errorf("%s: %+v, want %+v", name, counts, want)
		}
	}
}

// Reading allocates per file, not per row.
func TestAzureAllocations(t *testing.T) {
	file := func(rows int) workload.AzureCSV {
		var b strings.Builder
		b.WriteString("TIMESTAMP,ContextTokens,GeneratedTokens\n")
		for i := range rows {
			fmt.Fprintf(&b, "2024-05-12 00:%02d:%02d.%07d+00:00,1,1\n", i/60, i%60, i)
		}
		return azure(b.String())
	}
	count := func(a workload.AzureCSV) float64 {
		return testing.AllocsPerRun(3, func() {
			for _, err := range a.Requests() {
				if err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	if few, many := count(file(10)), count(file(3000)); many > few+10 {
		t.Errorf("%v allocations for 10 rows, %v for 3000", few, many)
	}
}

func FuzzAzureCSV(f *testing.F) {
	for _, s := range []string{
		azure2023, "\ufeff" + azure2023, azureDrops, zip(f, azure2023), zip(f, azureDrops)[:60], "",
		"TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-12 00:00:00.001163+00:00,1452,3\n2024-05-12 00:00:01+00:00,584,3\n",
		"TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\n2024-10-15T12:00:00.269Z,0,770,491\n2024-10-15T12:00:05.819Z,1,949,126\n",
		"\"TIMESTAMP\",ContextTokens,GeneratedTokens,\"x,y\"\n\"2024-05-12 00:00:05Z\",1,1,\"a,b\"\n2024-05-12 00:00:03Z,2,2,\n",
	} {
		f.Add([]byte(s), false, false)
		f.Add([]byte(s), true, true)
	}
	f.Fuzz(func(t *testing.T, data []byte, keepImages, sort bool) {
		var counts workload.Counts
		a := azure(string(data))
		a.KeepImages, a.Sort, a.Counts = keepImages, sort, &counts
		last, emitted := sim.Time(0), 0
		ids := map[int]bool{}
		failed := false
		for q, err := range a.Requests() {
			if failed {
				t.Fatal("the sequence goes on after an error")
			}
			if err != nil {
				failed = true
				if !strings.HasPrefix(err.Error(), "workload: trace.csv:") {
					t.Fatalf("error %q does not name the file", err)
				}
				continue
			}
			if q.Arrival < last || q.Prompt < 1 || q.Output < 1 || ids[q.ID] || q.ID >= counts.Read {
				t.Fatalf("request %+v after %v, %+v", q, last, counts)
			}
			last = q.Arrival
			ids[q.ID] = true
			emitted++
		}
		if counts.Read != counts.Emitted+counts.Dropped() || !failed && counts.Emitted != emitted {
			t.Fatalf("%d requests, counts %+v", emitted, counts)
		}
	})
}
