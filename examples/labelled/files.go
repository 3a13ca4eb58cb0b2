package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path"
	"path/filepath"

	"servesim/examples/labelled/scenario"
	"servesim/sim"
	"servesim/sim/trace"
)

// entry runs a scenario and writes its files.
func (o *options) entry(ctx context.Context, s scenario.Scenario) (Entry, error) {
	var perfetto bytes.Buffer
	var chrome *trace.Chrome
	run, err := s.Run(ctx, o.seed, func(cfg sim.Config) []sim.Observer {
		if o.out == "" {
			return nil
		}
		chrome = &trace.Chrome{W: &perfetto, Config: cfg}
		return []sim.Observer{chrome}
	})
	if err != nil {
		return Entry{}, err
	}
	e := Entry{Name: s.Name, About: s.About, Valid: s.Valid, Accepted: s.Accepted, Requests: int(run.Result.Completed), Label: run.Truth}
	if o.out == "" {
		return e, nil
	}
	if err := chrome.Flush(); err != nil {
		return Entry{}, err
	}
	e.Files = &Files{
		Trace: path.Join("traces", s.Name+".jsonl"), Labels: path.Join("labels", s.Name+".jsonl"), Labelled: path.Join("labelled", s.Name+".jsonl"),
		Perfetto: path.Join("perfetto", s.Name+".json"), OTLP: path.Join("otlp", s.Name+".jsonl"),
	}
	write := func(name string, f func(w io.Writer) error) {
		if err == nil {
			err = writeFile(o.out, name, f)
		}
	}
	write(e.Files.Trace, func(w io.Writer) error { return run.WriteTrace(w, false) })
	write(e.Files.Labelled, func(w io.Writer) error { return run.WriteTrace(w, true) })
	write(e.Files.Labels, func(w io.Writer) error {
		labels := &trace.LabelWriter{W: w}
		for _, l := range run.Labels {
			if err := labels.Write(l); err != nil {
				return err
			}
		}
		return labels.Flush()
	})
	write(e.Files.Perfetto, func(w io.Writer) error {
		_, err := perfetto.WriteTo(w)
		return err
	})
	if s.DamagesText() {
		e.Files.OTLP = "" // its spans are sound
		return e, err
	}
	write(e.Files.OTLP, func(w io.Writer) error {
		spans := &trace.OTLP{W: w, Run: o.seed, Model: run.Model}
		for _, x := range run.Entries {
			if err := spans.WriteUnchecked(x); err != nil {
				return err
			}
		}
		return spans.Flush()
	})
	return e, err
}

// writeFile writes one file below a directory.
func writeFile(directory, name string, write func(w io.Writer) error) error {
	full := filepath.Join(directory, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		return err
	}
	f, err := os.Create(full)
	if err != nil {
		return err
	}
	err = write(f)
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}
