package workload

import (
	"archive/tar"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// ServeGen are the client parameters of the ServeGen workload generator (Xiang
// et al., 2025): not requests, but how often each client of a service sends
// them, and of what lengths, in windows of time. It is a folder, a tar archive,
// or one file, each plain or gzip; files of rates end in -trace.csv, of lengths
// in -dataset.json, and others are ignored.
type ServeGen struct {
	// Path names the folder or file, also in errors.
	Path string
	// Open opens the input, which is then not a folder, once for each
	// iteration. nil opens Path.
	Open func() (io.ReadCloser, error)
}

// ServeGenClient says how often a client sends requests.
type ServeGenClient struct {
	Name    string // the file of rates without -trace.csv
	Windows []ServeGenRate
}

// ServeGenRate says how often a client sends requests from Start to the next
// window. Shape and Scale are fitted to the gaps: for Gamma they have the
// recorded mean and CV, for Weibull not exactly.
type ServeGenRate struct {
	Start   time.Duration
	Rate    float64 // requests per second
	CV      float64 // of the gaps
	Pattern string  // "Gamma", "Weibull", or "" if nothing is sent
	Shape   float64
	Scale   float64 // s
}

// Arrivals returns the arrivals of the client as ServeGen makes them, in windows
// of 600 s; its Width says otherwise. [Superpose] adds clients up, and parts of a
// [Merged] have lengths of their own.
func (c ServeGenClient) Arrivals() ServeGenWindows {
	var s ServeGenWindows
	for _, w := range c.Windows {
		s.Windows = append(s.Windows, ServeGenWindow{Start: w.Start, Rate: w.Rate, Pattern: ServeGenGapLaw(w.Pattern), Shape: w.Shape})
	}
	return s
}

// ServeGenClientLengths says what a client sends.
type ServeGenClientLengths struct {
	Name    string // the file of lengths without -dataset.json
	Windows []ServeGenLengthWindow
}

// ServeGenLengthWindow says what a client sends from Start to the next window.
type ServeGenLengthWindow struct {
	Start  time.Duration
	Fields []ServeGenField
}

// ServeGenField is the distribution of one field, such as input_tokens or
// reason_ratio. No values mean that nothing is sent.
type ServeGenField struct {
	Name   string
	Values []ServeGenValue
}

// ServeGenValue is a value and its share of the field, at least 0. The shares
// are as recorded, and sum to 1 up to rounding.
type ServeGenValue struct{ Value, Share float64 }

// Lengths returns the tables of the fields that have these names, such as
// input_tokens and output_tokens, as ServeGen draws from them. A field that is not
// there or has no values, and a value that is no length, are errors that name it.
func (w ServeGenLengthWindow) Lengths(prompt, output string) (ServeGenLengths, error) {
	var l ServeGenLengths
	var err error
	if l.Prompt, err = w.table(prompt); err != nil {
		return l, fmt.Errorf("workload: window at %v: %w", w.Start, err)
	}
	if l.Output, err = w.table(output); err != nil {
		return l, fmt.Errorf("workload: window at %v: %w", w.Start, err)
	}
	return l, nil
}

// table returns the values of a field in rising order.
func (w ServeGenLengthWindow) table(name string) (e Empirical, err error) {
	i := slices.IndexFunc(w.Fields, func(f ServeGenField) bool { return f.Name == name })
	if i < 0 {
		return e, fmt.Errorf("no field %s", name)
	}
	values := slices.Clone(w.Fields[i].Values)
	slices.SortFunc(values, func(a, b ServeGenValue) int { return cmp.Compare(a.Value, b.Value) })
	for _, v := range values {
		if v.Value != math.Trunc(v.Value) || v.Value < 1 || v.Value > maxTokens {
			return e, fmt.Errorf("%s has a value %v, want a whole number from 1 to %d", name, v.Value, maxTokens)
		}
		e.Values, e.Weights = append(e.Values, int(v.Value)), append(e.Weights, v.Share)
	}
	if err := e.Validate(); err != nil {
		return e, fmt.Errorf("%s: %w", name, err)
	}
	return e, nil
}

// ErrNoClients is what the error is if there are no files of the kind that was
// asked for, as errors.Is tells.
var ErrNoClients = errors.New("no file")

// Names of files of client parameters end so.
const (
	servegenRates   = "-trace.csv"
	servegenLengths = "-dataset.json"
)

// Clients yields the clients in the order of the archive, or by name in a
// folder, with their rates. Each iteration opens the input anew. Everything
// that is wrong ends the sequence with an error that names file, line, field
// and value.
func (s ServeGen) Clients() iter.Seq2[ServeGenClient, error] {
	return func(yield func(ServeGenClient, error) bool) {
		err := s.files(servegenRates, func(name, file string, in io.Reader) (bool, error) {
			c := ServeGenClient{Name: name}
			var err error
			if c.Windows, err = readRates(file, in); err != nil {
				return false, err
			}
			return yield(c, nil), nil
		})
		if err != nil {
			fail(yield, err)
		}
	}
}

// Lengths yields the lengths of the clients, as Clients does.
func (s ServeGen) Lengths() iter.Seq2[ServeGenClientLengths, error] {
	return func(yield func(ServeGenClientLengths, error) bool) {
		err := s.files(servegenLengths, func(name, file string, in io.Reader) (bool, error) {
			c := ServeGenClientLengths{Name: name}
			var err error
			if c.Windows, err = readLengths(file, in); err != nil {
				return false, err
			}
			return yield(c, nil), nil
		})
		if err != nil {
			fail(yield, err)
		}
	}
}

// files calls do for each file whose name ends so, until it returns false or
// an error: with its name without that end, what errors call it, and its
// content.
func (s ServeGen) files(suffix string, do func(name, file string, in io.Reader) (bool, error)) error {
	seen := map[string]bool{}
	visit := func(name, file string, in io.Reader) (bool, error) {
		name, ok := strings.CutSuffix(strings.TrimSuffix(name, ".gz"), suffix)
		if !ok {
			return true, nil
		}
		if seen[name] {
			return false, fmt.Errorf("%s: a second file of this name", file)
		}
		seen[name] = true
		return do(name, file, in)
	}
	err := s.walk(visit)
	if err == nil && len(seen) == 0 {
		return fmt.Errorf("%s: %w of the name *%s", s.Path, ErrNoClients, suffix)
	}
	return err
}

// walk calls visit for every file.
func (s ServeGen) walk(visit func(name, file string, in io.Reader) (bool, error)) error {
	if s.Open == nil {
		if info, err := os.Stat(s.Path); err == nil && info.IsDir() {
			return s.walkFolder(visit)
		}
	}
	in, err := openInput(s.Path, s.Open)
	if err != nil {
		return err
	}
	defer in.Close()
	b, err := unzip(s.Path, in)
	if err != nil {
		return err
	}
	const ustar = 257 // where a tar header says that it is one
	head, err := b.Peek(ustar + 5)
	if err != nil && err != io.EOF {
		return fmt.Errorf("%s: %w", s.Path, err)
	}
	if len(head) < ustar+5 || string(head[ustar:]) != "ustar" {
		_, err := visit(filepath.Base(s.Path), s.Path, b)
		return err
	}
	return s.walkArchive(b, visit)
}

func (s ServeGen) walkArchive(in io.Reader, visit func(name, file string, in io.Reader) (bool, error)) error {
	t := tar.NewReader(in)
	for {
		h, err := t.Next()
		if err == io.EOF {
			_, err = io.Copy(io.Discard, in) // to the checksum behind the end of the archive
			if err == nil {
				return nil
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.Path, err)
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		if more, err := visit(path.Clean(h.Name), s.Path+": "+h.Name, t); err != nil || !more {
			return err
		}
	}
}

func (s ServeGen) walkFolder(visit func(name, file string, in io.Reader) (bool, error)) error {
	return filepath.WalkDir(s.Path, func(file string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(s.Path, file)
		if err != nil {
			return err
		}
		in, err := os.Open(file)
		if err != nil {
			return err
		}
		defer in.Close()
		more, err := visit(filepath.ToSlash(name), file, in)
		if err == nil && !more {
			return fs.SkipAll
		}
		return err
	})
}
