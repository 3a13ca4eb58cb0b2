package main

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"

	"servesim/workload"
)

// targets are the formats that can be written.
var targets = []string{"azure", "mooncake", "tracelab"}

// Report is what became of the rows: the JSON object of -json.
type Report struct {
	File   string          `json:"file"`
	Format string          `json:"format"`
	To     string          `json:"to"`
	Output string          `json:"output"`
	Rows   workload.Counts `json:"rows"`
	// Lost says what rows may have had that was left out.
	Lost string `json:"lost,omitempty"`
}

// convert writes the file in another format and reports on stderr, or with
// -json on stdout. A conversion that fails leaves no output file.
func convert(ctx context.Context, o options, stdout, stderr io.Writer) (err error) {
	f, err := o.detect()
	if err != nil {
		return err
	}
	r := Report{File: o.file, Format: f.name, To: o.to, Output: o.output}
	if err := o.convertible(f, &r); err != nil {
		return err
	}
	w, finish := stdout, func(err error) error { return err }
	if o.output != "" {
		if w, finish, err = o.create(); err != nil {
			return err
		}
	}
	if err := finish(o.write(ctx, f, w, &r.Rows)); err != nil {
		if errors.Is(err, workload.ErrOrder) {
			return fmt.Errorf("%w; -sort puts them in order", err)
		}
		if errors.Is(err, workload.ErrLossy) {
			return fmt.Errorf("%w; -lossy does", err)
		}
		return err
	}
	o.done()
	if o.json {
		return writeJSON(stdout, r)
	}
	fmt.Fprintln(stderr, r.Rows)
	if r.Lost != "" {
		fmt.Fprintf(stderr, "left out: %s\n", r.Lost)
	}
	return nil
}

// create creates the output file, zipped if its name ends in .gz. Finish
// closes it, and removes it if something went wrong: half a recording looks
// like a whole one.
func (o *options) create() (w io.Writer, finish func(error) error, err error) {
	if sameFile(o.file, o.output) {
		return nil, nil, fmt.Errorf("OUTPUT %s is FILE", o.output)
	}
	file, err := os.Create(o.output)
	if err != nil {
		return nil, nil, err
	}
	w = file
	closers := []io.Closer{file}
	if strings.HasSuffix(o.output, ".gz") {
		z := gzip.NewWriter(file)
		w, closers = z, []io.Closer{z, file}
	}
	return w, func(err error) error {
		for _, c := range closers {
			err = errors.Join(err, c.Close())
		}
		if err != nil {
			os.Remove(o.output)
		}
		return err
	}, nil
}

// convertible reports a conversion that cannot be, or loses what the format of
// the file may have.
func (o *options) convertible(f *format, r *Report) error {
	switch {
	case f.requests == nil:
		return fmt.Errorf("%s: %s has no requests to convert", o.file, f.name)
	case o.to == "tracelab" && f.name != "tracelab":
		return fmt.Errorf("%s: %s does not say which requests wait for which, as tracelab does", o.file, f.name)
	case o.to == "tracelab":
		return nil
	case f.name == "tracelab" && o.closedLoop():
		return fmt.Errorf("%s: %w", o.file, errClosedLoop)
	case f.loses != "" && !o.lossy:
		return fmt.Errorf("%s: %s would lose %s; -lossy leaves them out", o.file, o.to, f.loses)
	}
	r.Lost = f.loses
	return nil
}

// write writes the recording in the other format.
func (o *options) write(ctx context.Context, f *format, w io.Writer, rows *workload.Counts) error {
	if o.to == "tracelab" {
		return workload.TraceLabWriter{W: w, Origin: o.origin}.Write(o.sessions(ctx, rows))
	}
	requests := o.watch(ctx, "converting", f.requests(*o, o.sort, rows))
	if o.to == "azure" {
		return workload.AzureWriter{W: w, Origin: o.originDate, Lossy: o.lossy}.Write(requests)
	}
	if block := o.prefixBlock(f, o.sort); block > 0 && block < mooncakeBlock && o.toBlocks == 0 {
		return fmt.Errorf("%s: its prefixes are in blocks of %d tokens, mooncake's in %d; -to-block-tokens says which to write", o.file, block, mooncakeBlock)
	}
	return workload.MooncakeWriter{
		W: w, Origin: o.origin, BlockTokens: o.toBlocks, WholeMillis: o.wholeMillis, Lossy: o.lossy, PartialIDs: hasPartialIDs(f),
	}.Write(requests)
}

// mooncakeBlock is the number of tokens of a block of Mooncake's traces.
const mooncakeBlock = 512

// hasPartialIDs reports whether the format names blocks that are not full.
func hasPartialIDs(f *format) bool {
	return f.name == "mooncake" || f.name == "bailian" || f.name == "timed-trace"
}

// sessions reads the sessions of a recording.
func (o *options) sessions(ctx context.Context, rows *workload.Counts) iter.Seq2[workload.TraceLabSession, error] {
	return func(yield func(workload.TraceLabSession, error) bool) {
		for s, err := range (workload.TraceLab{Path: o.file, Sort: o.sort}).Sessions() {
			if err == nil {
				err = ctx.Err()
			}
			rows.Read += len(s.Rounds)
			rows.Emitted += len(s.Rounds)
			if !yield(s, err) || err != nil {
				return
			}
		}
	}
}

// sameFile reports whether two names are of one file.
func sameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}
