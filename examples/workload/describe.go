package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"servesim/sim"
	"servesim/workload"
)

// Output is the whole outcome: the JSON object of -json. What a format does
// not have is left out.
type Output struct {
	File   string           `json:"file"`
	Format string           `json:"format"`
	Rows   *workload.Counts `json:"rows,omitempty"`
	// Workload and Shape describe the requests. Those of a recording of
	// sessions in closed loop arrive when answers come, so they have no
	// arrivals, and Starts and StartShape describe those of the sessions.
	Workload   *workload.Description  `json:"workload,omitempty"`
	Shape      *workload.Shape        `json:"shape,omitempty"`
	Starts     *workload.Description  `json:"session_starts,omitempty"`
	StartShape *workload.ArrivalShape `json:"session_start_shape,omitempty"`
	Sharing    *workload.Sharing      `json:"sharing,omitempty"`
	// Continuations are what seem to be turns, in a recording that does not say.
	Continuations *workload.Continuations `json:"continuations,omitempty"`
	Sessions      *Sessions               `json:"sessions,omitempty"`
	Parts         *Parts                  `json:"parts,omitempty"`
	Tokens        *Tokens                 `json:"tokens,omitempty"`
	Clients       *Clients                `json:"clients,omitempty"`
	Fields        []Field                 `json:"fields,omitempty"`
	// How the figures are meant.
	Conventions string `json:"conventions"`
}

// Conventions say how the figures are meant.
const (
	percentiles       = "Percentiles interpolate linearly at position (N-1)·q."
	requestConvention = "Rate is requests / span. CV and dispersion (IDC) are of the population, in windows aligned to the first arrival, " +
		"the last, partial one dropped. " + percentiles + " eta² is the share of the variance of log output " +
		"between 20 bins of the prompt, whose edges are such percentiles and belong to the bin below."
	sharingConvention = " Prompts are replayed one after the other; a block is found behind equal blocks; " +
		"ids of blocks that are not full count, which engines do not share."
	continuationConvention = " A request continues an earlier one if it begins with all blocks of that but the last, at least two; each is continued once."
	documentConvention     = " Requests of a document are generated, no more than -requests and -horizon let."
	rateConvention         = "Figures of rates are over windows, those of the CV over windows with requests. " + percentiles
	equalConvention        = "Of lengths, every client and window counts the same, however much it sends: -rates names the file that says how much."
	weightConvention       = "Lengths are weighted by the rates of clients and windows."
)

// describe reads the file as often as its figures need.
func describe(ctx context.Context, o options) (Output, error) {
	f, err := o.detect()
	if err != nil {
		return Output{}, err
	}
	out := Output{File: o.file, Format: f.name}
	switch {
	case f.name == "servegen":
		err = describeServeGen(ctx, o, &out)
	case f.name == "ragpulse-side":
		err = describeSide(o, &out)
	case f.name == "tracelab" && o.closedLoop():
		err = describeSessions(ctx, o, &out)
	default:
		err = describeRequests(ctx, o, f, &out)
	}
	if err == nil && f.name == "ragpulse" && !o.noPrefix {
		out.Parts, out.Sessions, err = describeParts(ctx, o)
	}
	return out, err
}

// detect is the format of the file, of -format if that is there. Flags that
// mean nothing to it are an error.
func (o *options) detect() (*format, error) {
	f, err := o.formatOf(o.file)
	if err != nil {
		return nil, err
	}
	return f, o.meant(f)
}

func (o *options) formatOf(file string) (*format, error) {
	if o.format != "" {
		return formatNamed(o.format), nil
	}
	return detect(file)
}

// meant is an error if a flag means nothing to any of the formats.
func (o *options) meant(formatsOfFiles ...*format) error {
	for _, name := range o.set {
		var takers, used []string
		means := false
		for _, other := range formats {
			if slices.Contains(other.flags, name) {
				takers = append(takers, other.name)
			}
		}
		for _, f := range formatsOfFiles {
			used = append(used, f.name)
			means = means || slices.Contains(f.flags, name)
		}
		if takers != nil && !means {
			return fmt.Errorf("%s: -%s means nothing to the format %s, but to %s", o.file, name, strings.Join(used, ", "), strings.Join(takers, ", "))
		}
	}
	return nil
}

// describeRequests describes a format that has requests. Rows that are out of
// order are put in order, which Counts then says.
func describeRequests(ctx context.Context, o options, f *format, out *Output) error {
	out.Rows, out.Conventions = &workload.Counts{}, requestConvention
	if f.name == "document" {
		out.Conventions += documentConvention
	}
	sort := false
	pass := func(what string) iter.Seq2[sim.Request, error] {
		return o.watch(ctx, what, f.requests(o, sort, out.Rows))
	}
	d, err := workload.Describe(pass("arrivals and lengths"))
	if errors.Is(err, workload.ErrOrder) {
		sort = true
		d, err = workload.Describe(pass("arrivals and lengths, put in order"))
	}
	if err != nil {
		return err
	}
	out.Workload = &d
	shape, err := workload.DescribeShape(pass("shape"))
	if err != nil {
		return err
	}
	out.Shape = &shape
	if o.prefixBlock(f, sort) == 0 {
		return nil
	}
	s, err := workload.DescribeSharing(pass("prefixes"), o.cacheBlocks...)
	if err != nil {
		return err
	}
	c, err := workload.DescribeContinuations(pass("continuations"))
	if err != nil {
		return err
	}
	out.Sharing, out.Continuations = &s, &c
	out.Conventions += sharingConvention + continuationConvention
	return nil
}

// prefixBlock is the number of tokens of a block of the prefixes, 0 if there
// are none.
func (o options) prefixBlock(f *format, sort bool) int {
	for q := range f.requests(o, sort, new(workload.Counts)) {
		return q.PrefixBlock
	}
	return 0
}

// watch shows progress, and ends a sequence with the error of the context once
// it has one.
func (o *options) watch(ctx context.Context, what string, requests iter.Seq2[sim.Request, error]) iter.Seq2[sim.Request, error] {
	return func(yield func(sim.Request, error) bool) {
		n := 0
		for r, err := range requests {
			if err == nil {
				err = ctx.Err()
			}
			if !yield(r, err) || err != nil {
				return
			}
			if n++; n%100_000 == 0 {
				o.show(fmt.Sprintf("%s, %d rows", what, n))
			}
		}
	}
}
