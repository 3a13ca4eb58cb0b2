package main

import (
	"bytes"
	"context"
	"errors"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"servesim/workload"
)

// A document in which nobody waits for answers.
const open = `{"servesim_workload": 1, "seed": 1, "sources": [{"requests": {"kind": "open",
	"arrivals": {"kind": "azure_code_2023"}, "mix": [{"lengths": {"kind": "azure_code_2023"}}]}}]}`

// The pictures are there, and of a size to look at.
func TestPlot(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "made")
	got := output(t, "plot", "-out", folder, "-requests", "3000", "-assume-itl", "20ms",
		file(t, "open.json", open), "testdata/document.json", "testdata/mooncake.jsonl", "testdata/tracelab.csv")
	for _, name := range []string{"arrivals.png", "dispersion.png", "lengths.png"} {
		path := filepath.Join(folder, name)
		if !strings.Contains(got, path+"\n") {
			t.Errorf("%s is not said to be written: %q", path, got)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		img, err := png.Decode(f)
		f.Close()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		colours := map[any]bool{}
		for x := range img.Bounds().Dx() {
			for y := range img.Bounds().Dy() {
				colours[img.At(x, y)] = true
			}
		}
		if img.Bounds().Dx() < 500 || len(colours) < 20 {
			t.Errorf("%s is %v with %d colours", name, img.Bounds(), len(colours))
		}
	}
}

// What is drawn is what Describe and DescribeShape say.
func TestDrawnIsDescribed(t *testing.T) {
	o := options{file: file(t, "open.json", open), requests: 20_000, show: func(string) {}}
	d, err := readDrawn(context.Background(), o, formatNamed("document"))
	if err != nil {
		t.Fatal(err)
	}
	shape, err := workload.DescribeShape(document(o, false, new(workload.Counts)))
	if err != nil {
		t.Fatal(err)
	}
	if d.n != 20_000 || len(shape.Arrivals.Windows) < 4 {
		t.Fatalf("%d requests, %d windows", d.n, len(shape.Arrivals.Windows))
	}
	for _, w := range shape.Arrivals.Windows {
		idc, ok := d.dispersion(w.Seconds)
		if !ok || math.Abs(idc-float64(w.IDC)) > 1e-9*idc {
			t.Errorf("dispersion at %d s is drawn as %v, %v, described as %v", w.Seconds, idc, ok, w.IDC)
		}
	}
	sum := 0.0
	for _, n := range d.seconds {
		sum += n
	}
	if int(sum) != d.n || len(d.seconds) != int(d.span)+1 {
		t.Errorf("%v requests in %d seconds of %v", sum, len(d.seconds), d.span)
	}
	// Of many lengths every other one is kept, again and again.
	o.requests = 5*maxDots + 1
	if d, err = readDrawn(context.Background(), o, formatNamed("document")); err != nil {
		t.Fatal(err)
	}
	i, kept := 0, 0
	for q, err := range document(o, false, new(workload.Counts)) {
		if err != nil {
			t.Fatal(err)
		}
		if i%d.every == 0 {
			if xy := d.lengths[kept]; int(xy.X) != q.Prompt || int(xy.Y) != q.Output {
				t.Fatalf("dot %d is %v, want %d, %d", kept, xy, q.Prompt, q.Output)
			}
			kept++
		}
		i++
	}
	if d.every != 4 || kept != len(d.lengths) || kept > 2*maxDots {
		t.Errorf("%d dots, one of %d requests", len(d.lengths), d.every)
	}
}

// A document is described and converted as a recording is, and cut where the
// command line says.
func TestDocument(t *testing.T) {
	path := file(t, "w.json", open)
	whole := output(t, "describe", "-requests", "500", path)
	if !strings.Contains(whole, "document") || !strings.Contains(whole, "500 rows: 500 requests, 0 dropped") {
		t.Errorf("described as\n%s", whole)
	}
	if again := output(t, "describe", "-requests", "500", path); again != whole {
		t.Errorf("described again as\n%s", again)
	}
	if got := output(t, "describe", "-horizon", "600s", path); strings.Contains(got, "100000 rows") || strings.Contains(got, " 0 rows") {
		t.Errorf("a minute is described as\n%s", got)
	}
	var stdout, stderr bytes.Buffer
	if err := run(context.Background(), []string{"convert", "-to", "azure", "-lossy", "-requests", "7", path}, &stdout, &stderr); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(stdout.String(), "\n"); lines != 8 || !strings.Contains(stderr.String(), "left out: the seed, classes, paths and feedback") {
		t.Errorf("converted to %d lines, %s", lines, &stderr)
	}
	if got := output(t, "describe", "-assume-ttft", "200ms", "-assume-itl", "20ms", "-requests", "2000", "testdata/document.json"); !strings.Contains(got, "2000 requests") {
		t.Errorf("feedback is described as\n%s", got)
	}
}

func TestPlotErrors(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	path := file(t, "w.json", open)
	for want, args := range map[string][]string{
		"plot what? FILE is missing":                                                     {"plot", "-out", out},
		"-out is missing: the folder of the pictures":                                    {"plot", path},
		"-requests is -1 and -horizon 0s, want at least 0":                               {"plot", "-out", out, "-requests", "-1", path},
		"-requests means nothing to the format mooncake, but to document":                {"plot", "-out", out, "-requests", "1", "testdata/mooncake.jsonl"},
		"testdata/document.json: its requests arrive when answers come; -assume-":        {"plot", "-out", out, path, "testdata/document.json"},
		"testdata/tracelab.csv: its requests arrive when answers come; -assume-":         {"plot", "-out", out, "testdata/tracelab.csv"},
		"ragpulse-side has no requests to draw":                                          {"plot", "-out", out, file(t, "side", `{"passage_id": 1, "token_length": 3}`)},
		"azure would lose the seed, classes, paths and feedback; -lossy leaves them out": {"convert", "-to", "azure", path},
		"bad.json:1: the field \"seed\" is missing":                                      {"describe", file(t, "bad.json", `{"servesim_workload": 1}`)},
		"flag provided but not defined: -json; flags of plot are -assume-itl, -as":       {"plot", "-json", "-out", out, path},
	} {
		var stdout, stderr bytes.Buffer
		err := run(context.Background(), args, &stdout, &stderr)
		if err == nil || !strings.Contains(err.Error(), want) || stdout.Len() > 0 {
			t.Errorf("workload %v: error %v, want %s; output %q", args, err, want, &stdout)
		}
		if _, err := os.Stat(out); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("workload %v left its output", args)
		}
	}
}
