package workload_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/workload"
)

const (
	genRates   = "0,0,0,,0,0\r\n600,0.085,6.69,Gamma,0.0223,73.0\r\n1200,0.39,0.91,Weibull,1.2,2.074\r\n"
	genLengths = `{
  "0": {"input_tokens": "{45: 0.25, 46: 0.75}", "output_tokens": "{7: 1.0}", "reason_ratio": "{0.5: 1e0, }"},
  "21600": {"input_tokens": "{}", "output_tokens": "{ }", "reason_ratio": "{}"}
}
`
)

var (
	genRatesWant = []workload.ServeGenRate{
		{}, {Start: 600 * time.Second, Rate: .085, CV: 6.69, Pattern: "Gamma", Shape: .0223, Scale: 73},
		{Start: 1200 * time.Second, Rate: .39, CV: .91, Pattern: "Weibull", Shape: 1.2, Scale: 2.074},
	}
	genLengthsWant = []workload.ServeGenLengthWindow{
		{Fields: []workload.ServeGenField{
			{Name: "input_tokens", Values: []workload.ServeGenValue{{45, .25}, {46, .75}}},
			{Name: "output_tokens", Values: []workload.ServeGenValue{{7, 1}}},
			{Name: "reason_ratio", Values: []workload.ServeGenValue{{.5, 1}}},
		}},
		{Start: 6 * time.Hour, Fields: []workload.ServeGenField{{Name: "input_tokens"}, {Name: "output_tokens"}, {Name: "reason_ratio"}}},
	}
)

// archive is a tar file of pairs of names and contents.
func archive(t testing.TB, files ...string) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Name: "model/", Typeflag: tar.TypeDir, Mode: 0o700}); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(files); i += 2 {
		if err := w.WriteHeader(&tar.Header{Name: files[i], Size: int64(len(files[i+1])), Mode: 0o600}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(files[i+1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func readServeGen(s workload.ServeGen) (clients []workload.ServeGenClient, lengths []workload.ServeGenClientLengths, errs [2]error) {
	for c, err := range s.Clients() {
		if err != nil {
			errs[0] = err
			break
		}
		clients = append(clients, c)
	}
	for c, err := range s.Lengths() {
		if err != nil {
			errs[1] = err
			break
		}
		lengths = append(lengths, c)
	}
	return clients, lengths, errs
}

func TestServeGen(t *testing.T) {
	files := []string{"model/chunk-10-trace.csv", genRates, "model/chunk-10-dataset.json", genLengths, "model/README", "not one",
		"model/chunk-2-trace.csv.gz", zip(t, genRates), "model/chunk-2-dataset.json.gz", zip(t, genLengths)}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "model"), 0o700); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(files); i += 2 {
		if err := os.WriteFile(filepath.Join(dir, files[i]), []byte(files[i+1]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	both := []string{"model/chunk-10", "model/chunk-2"}
	for _, c := range []struct {
		name           string
		gen            workload.ServeGen
		rates, lengths []string
	}{
		{"archive", workload.ServeGen{Path: "trace", Open: memory(archive(t, files...))}, both, both},
		{"zipped archive", workload.ServeGen{Path: "trace", Open: memory(zip(t, archive(t, files...)))}, both, both},
		{"folder", workload.ServeGen{Path: dir}, both, both},
		{"one file", workload.ServeGen{Path: filepath.Join(dir, files[0])}, []string{"chunk-10"}, nil},
		{"one zipped file", workload.ServeGen{Path: filepath.Join(dir, files[8])}, nil, []string{"chunk-2"}},
	} {
		clients, lengths, errs := readServeGen(c.gen)
		var wantClients []workload.ServeGenClient
		for _, name := range c.rates {
			wantClients = append(wantClients, workload.ServeGenClient{Name: name, Windows: genRatesWant})
		}
		var wantLengths []workload.ServeGenClientLengths
		for _, name := range c.lengths {
			wantLengths = append(wantLengths, workload.ServeGenClientLengths{Name: name, Windows: genLengthsWant})
		}
		if diff := cmp.Diff(wantClients, clients); diff != "" || (errs[0] != nil) != (c.rates == nil) {
			t.Errorf("%s: error %v, rates (-want +got):\n%s", c.name, errs[0], diff)
		}
		if diff := cmp.Diff(wantLengths, lengths); diff != "" || (errs[1] != nil) != (c.lengths == nil) {
			t.Errorf("%s: error %v, lengths (-want +got):\n%s", c.name, errs[1], diff)
		}
		for _, err := range errs {
			if err != nil && !errors.Is(err, workload.ErrNoClients) {
				t.Errorf("%s: %v", c.name, err)
			}
		}
		for range c.gen.Clients() {
			break
		}
	}
}

func TestServeGenErrors(t *testing.T) {
	const rates, lengths = "c-trace.csv", "c-dataset.json"
	for _, c := range []struct{ name, file, text, want string }{
		{"empty", rates, "", "trace: c-trace.csv: the file is empty"},
		{"blank", rates, "\n\n", "trace: c-trace.csv: no rows"},
		{"too few fields", rates, "0,0,0\n", "trace: c-trace.csv:1: the row has 3 fields, want 6"},
		{"a header", rates, "start,rate,cv,pattern,shape,scale\n", `trace: c-trace.csv:1: window start "start": not a number of seconds`},
		{"a negative rate", rates, "0,-1,0,,0,0\n", `trace: c-trace.csv:1: rate "-1": not a finite number, at least 0`},
		{"a rate without end", rates, "0,Inf,0,,0,0\n", `trace: c-trace.csv:1: rate "Inf": not a finite number`},
		{"text in a number", rates, "0,1,one,Gamma,1,1\n", `trace: c-trace.csv:1: cv "one": not a finite number`},
		{"no number", rates, "0,1,NaN,Gamma,1,1\n", `trace: c-trace.csv:1: cv "NaN": not a finite number`},
		{"no pattern", rates, "0,1,1,,1,1\n", `trace: c-trace.csv:1: rate "1" without a pattern`},
		{"another pattern", rates, "0,1,1,Pareto,1,1\n", `trace: c-trace.csv:1: pattern "Pareto", want Gamma, Weibull or nothing`},
		{"no shape", rates, "0,1,1,Gamma,0,1\n", `trace: c-trace.csv:1: pattern Gamma with shape "0" and scale "1"`},
		{"windows reordered", rates, "600,0,0,,0,0\n0,0,0,,0,0\n", `trace: c-trace.csv:2: window start 0 is not after the one before, 600 s`},
		{"a window twice", rates, "600,0,0,,0,0\n600,0,0,,0,0\n", `trace: c-trace.csv:2: window start 600 is not after`},
		{"empty lengths", lengths, "", "trace: c-dataset.json: the file is empty"},
		{"no JSON", lengths, "{", "trace: c-dataset.json: not JSON: unexpected end of JSON input"},
		{"no object", lengths, "[]", "trace: c-dataset.json: not a JSON object of windows"},
		{"no windows", lengths, "{}", "trace: c-dataset.json: no windows"},
		{"a window with a name", lengths, `{"noon": {}}`, `trace: c-dataset.json: window "noon": not a number of seconds`},
		{"windows twice", lengths, `{"0": {}, "0": {}}`, `trace: c-dataset.json: window "0" is not after the one before, 0 s`},
		{"no fields", lengths, `{"0": 3}`, `trace: c-dataset.json: window "0": not an object of fields`},
		{"a field twice", lengths, `{"0": {"a": "{}", "a": "{}"}}`, `trace: c-dataset.json: window "0": a is there twice`},
		{"no dictionary", lengths, `{"0": {"a": {}}}`, `trace: c-dataset.json: window "0": a {}: not a dictionary in a string`},
		{"half a dictionary", lengths, `{"0": {"a": "{1: 2"}}`, `trace: c-dataset.json: window "0": a: "{1: 2" is not a dictionary {value: share, …}`},
		{"no beginning", lengths, `{"0": {"a": "1: 2}"}}`, `trace: c-dataset.json: window "0": a: "1: 2}" is not a dictionary`},
		{"one brace", lengths, `{"0": {"a": "{"}}`, `trace: c-dataset.json: window "0": a: "{" is not a dictionary`},
		{"no share", lengths, `{"0": {"a": "{1}"}}`, `trace: c-dataset.json: window "0": a: "1" is not value: share`},
		{"a value", lengths, `{"0": {"a": "{x: 1}"}}`, `trace: c-dataset.json: window "0": a: value "x": not a finite number`},
		{"a share", lengths, `{"0": {"a": "{1: -1}"}}`, `trace: c-dataset.json: window "0": a: share " -1" of 1: not a finite number, at least 0`},
		{"a value twice", lengths, `{"0": {"a": "{1: .5, 1.0: .5}"}}`, `trace: c-dataset.json: window "0": a: value 1.0 is there twice`},
	} {
		_, _, errs := readServeGen(workload.ServeGen{Path: "trace", Open: memory(archive(t, c.file, c.text))})
		err := errs[0]
		if c.file == lengths {
			err = errs[1]
		}
		if !strings.HasPrefix(errText(err), "workload: "+c.want) {
			t.Errorf("%s: error %v, want %s", c.name, err, c.want)
		}
	}
	whole := zip(t, archive(t, rates, strings.Repeat("0", 5000)+",0,0,,0,0\n", "d-trace.csv", genRates))
	for name, c := range map[string]struct{ data, want string }{
		"none":              {archive(t, "README", "x"), "workload: trace: no file of the name *-trace.csv"},
		"a client twice":    {archive(t, rates, genRates, rates, genRates), "workload: trace: c-trace.csv: a second file of this name"},
		"zipped twice":      {archive(t, rates, genRates, rates+".gz", zip(t, genRates)), "workload: trace: c-trace.csv.gz: a second file of this name"},
		"an archive cut":    {archive(t, rates, genRates)[:1100], "workload: trace: c-trace.csv:"},
		"gzip cut":          {whole[:len(whole)-12], "workload: trace:"},
		"gzip header cut":   {whole[:5], "workload: trace: unexpected EOF"},
		"an empty file":     {"", "workload: trace: the file is empty"},
		"another kind":      {"hello", "workload: trace: no file of the name *-trace.csv"},
		"a header is wrong": {strings.Replace(archive(t, rates, genRates, "d-trace.csv", genRates), "d-trace", "e-trace", 1), "workload: trace: archive/tar: invalid tar header"},
	} {
		_, _, errs := readServeGen(workload.ServeGen{Path: "trace", Open: memory(c.data)})
		if !strings.HasPrefix(errText(errs[0]), c.want) {
			t.Errorf("%s: %v, want %s", name, errs[0], c.want)
		}
	}
	if _, _, errs := readServeGen(workload.ServeGen{Path: filepath.Join(t.TempDir(), "absent")}); !errors.Is(errs[0], os.ErrNotExist) || !errors.Is(errs[1], os.ErrNotExist) {
		t.Errorf("an absent file: %v", errs)
	}
}

// The public parameters: clients, windows, and distributions that sum to 1.
func TestServeGenRecordings(t *testing.T) {
	for name, want := range map[string]int{"servegen_deepseek-r1_trace_csvs.tar.gz": 73, "servegen_mm-image_trace_csvs.tar.gz": 35} {
		clients := 0
		for c, err := range (workload.ServeGen{Path: shared(t, "recordings/"+name)}).Clients() {
			if err != nil {
				t.Fatal(err)
			}
			clients++
			if len(c.Windows) != 144 || c.Windows[143].Start != 143*10*time.Minute {
				t.Errorf("%s, %s: %d windows", name, c.Name, len(c.Windows))
			}
			for _, w := range c.Windows { // gamma rows are fits of moments
				if w.Pattern == "Gamma" && (w.Shape*w.CV*w.CV < .999999 || w.Shape*w.CV*w.CV > 1.000001) {
					t.Errorf("%s, %s at %v: gamma of shape %v, CV %v", name, c.Name, w.Start, w.Shape, w.CV)
				}
			}
		}
		if clients != want {
			t.Errorf("%s: %d clients, want %d", name, clients, want)
		}
	}
	clients, empty, full := 0, 0, 0
	for c, err := range (workload.ServeGen{Path: shared(t, "recordings/servegen_deepseek-r1_dataset_jsons.tar.gz")}).Lengths() {
		if err != nil {
			t.Fatal(err)
		}
		clients++
		for _, w := range c.Windows {
			var names []string
			for _, f := range w.Fields {
				names = append(names, f.Name)
				sum := 0.0
				for _, v := range f.Values {
					sum += v.Share
				}
				switch {
				case len(f.Values) == 0:
					empty++
				case sum < .9999 || sum > 1.0001:
					t.Errorf("%s at %v: shares of %s sum to %v", c.Name, w.Start, f.Name, sum)
				default:
					full++
				}
			}
			if !slices.Equal(names, []string{"input_tokens", "output_tokens", "reason_ratio"}) {
				t.Errorf("%s at %v: fields %v", c.Name, w.Start, names)
			}
		}
	}
	if clients != 73 || empty != 324 || full != 552 {
		t.Errorf("%d clients with %d distributions and %d empty ones, want 73, 552, 324", clients, full, empty)
	}
}

func FuzzServeGen(f *testing.F) {
	f.Add([]byte(genRates), []byte(genLengths), false)
	f.Add([]byte("0,1e-3,1,Gamma,1,1"), []byte(`{"1.5":{"a":"{1:1,2.5:0}"}}`), true)
	f.Fuzz(func(t *testing.T, rates, lengths []byte, raw bool) {
		data := string(rates) // not an archive, mostly
		if !raw {
			data = archive(t, "c-trace.csv", string(rates), "c-dataset.json", string(lengths))
		}
		clients, all, errs := readServeGen(workload.ServeGen{Path: "trace", Open: memory(data)})
		for _, err := range errs {
			if err != nil && !strings.HasPrefix(err.Error(), "workload: trace") {
				t.Fatalf("error %q does not name the file", err)
			}
		}
		for _, c := range clients {
			last := time.Duration(-1)
			for _, w := range c.Windows {
				if w.Start <= last || !(w.Rate >= 0) || w.Pattern == "" && w.Rate > 0 || w.Pattern != "" && !(w.Shape > 0 && w.Scale > 0) {
					t.Fatalf("window %+v after %v", w, last)
				}
				last = w.Start
			}
		}
		for _, c := range all {
			for _, w := range c.Windows {
				for _, f := range w.Fields {
					for _, v := range f.Values {
						if !(v.Share >= 0 && v.Value >= 0) {
							t.Fatalf("%s: %+v", f.Name, v)
						}
					}
				}
			}
		}
	})
}
