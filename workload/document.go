package workload

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"reflect"
	"strings"

	"servesim/sim"
)

// Document is a workload that can be written down, as one JSON document, and
// read again: a result that carries it can be made again by others.
//
//	{
//	  "servesim_workload": 1,
//	  "seed": 7,
//	  "sources": [
//	    {
//	      "name": "chat",
//	      "requests": {
//	        "kind": "open",
//	        "arrivals": {
//	          "kind": "limit",
//	          "arrivals": {"kind": "gamma", "rate_per_s": 8, "cv": 2},
//	          "duration_s": 600
//	        },
//	        "mix": [{"class": {"name": "chat", "ttft_ms": 500}, "lengths": {"kind": "azure_conv_2023"}}]
//	      }
//	    }
//	  ]
//	}
//
// A value that can be of several kinds is an object whose kind names the type:
// [Gamma] is gamma, with the fields of that type by name and unit. Fields that
// may be 0 may be left out. Unknown fields and kinds, fields that are missing or
// twice, and values of another type or out of range are errors that name file,
// line and field. Times are numbers in the unit of their name, exact to the
// nanosecond; "inf" is an infinite number.
//
// The same document gives the same requests, byte for byte. A source draws from
// streams keyed by Seed and its name, a class by its own name: sources and
// classes can be added, dropped and reordered without a change to the requests
// of the others, their prefixes, paths and retries among them, but for their
// numbers (ID, Class, Origin.Source), and for requests that a class wins from
// others. Sources that are added behind the
// others change no numbers either.
type Document struct {
	// Version is that of the format: 1, or 0 for the latest.
	Version int `doc:"servesim_workload"`
	// Note is for people.
	Note string `doc:"note,opt"`
	// Seed determines everything that is drawn.
	Seed    uint64   `doc:"seed"`
	Sources []Source `doc:"sources"`
	// Gateway stands before the engine for all sources; nil means none. Its Seed
	// is the document's.
	Gateway *GatewayQueue `doc:"gateway,opt"`

	place *documentPlace
}

// documentVersion is that of the format.
const documentVersion = 1

// Source is one workload of a [Document].
type Source struct {
	Name string `doc:"name,opt"` // unique
	// Seed replaces the one that the document's seed and Name give: with the
	// seed of a [Workload] the requests are those of the Workload. Name still
	// salts prefixes, so that only texts of a name are common to sources.
	Seed *uint64 `doc:"seed,opt"`
	// Class is the class of all requests, unless they are a [Workload], whose
	// shares have classes.
	Class    sim.Class `doc:"class,opt"`
	Requests Requester `doc:"requests"`
	// Speed multiplies the rate, as the function [Speed] does; 0 means 1. First keeps the
	// first so many requests; 0 keeps all. Neither is for clients that wait
	// for answers.
	Speed float64 `doc:"speed,opt"`
	First int     `doc:"first,opt"`
	// ClientSide says where the clients are, by the classes of this source; nil
	// means beside the engine. Its Seed is the source's. A client_path of
	// Requests goes before it.
	ClientSide *ClientSide `doc:"client_side,opt"`
	// Retry says when its clients try again; nil means never.
	Retry *ClientRetry `doc:"retry,opt"`
}

// ClientRetry is a [Retry] with a name for what it is On.
type ClientRetry struct {
	Retry
	// After is "refused" or "timed_out"; empty means both.
	After string `doc:"after,opt"`
}

// Validate reports the first invalid field.
func (r ClientRetry) Validate() error {
	switch {
	case r.After != "" && r.After != "refused" && r.After != "timed_out":
		return fmt.Errorf("%s is %q, want \"refused\", \"timed_out\" or empty", "ClientRetry.After", r.After)
	case r.On != nil && r.After != "":
		return fmt.Errorf("%s is %q and On is set", "ClientRetry.After", r.After)
	}
	return r.Retry.Validate()
}

// retry is the Retry of a seed.
func (r ClientRetry) retry(seed uint64) Retry {
	out := r.Retry
	out.Seed = seed
	switch r.After {
	case "refused":
		out.On = Refused
	case "timed_out":
		out.On = TimedOut
	}
	return out
}

// Validate reports the first invalid field.
func (s Source) Validate() error {
	if err := validate("Source.Requests", s.Requests); err != nil {
		return err
	}
	if s.Retry != nil {
		if err := validate("Source.Retry", *s.Retry); err != nil {
			return err
		}
	}
	if c := s.ClientSide; c != nil {
		if err := validate("Source.ClientSide", *c); err != nil {
			return err
		}
		if n, classes := len(c.Classes), len(s.classes()); n != 1 && n != classes {
			return fmt.Errorf("%s has %d Classes, want 1 or those of the source, %d", "Source.ClientSide", n, classes)
		}
	}
	if s.Speed != 0 {
		if err := checkPositive("Source.Speed", s.Speed); err != nil {
			return err
		}
	}
	w, open := s.Requests.(Workload)
	switch {
	case open && s.Class != sim.Class{}:
		return errors.New("Source.Class is set, but the shares of a mix have classes of their own")
	case s.Class.TTFT < 0 || s.Class.Gap < 0:
		return fmt.Errorf("%s %v and Gap %v, want at least 0", "Source.Class has TTFT", s.Class.TTFT, s.Class.Gap)
	case s.First < 0:
		return fmt.Errorf("%s is %d, want at least 0", "Source.First", s.First)
	case reacts(s.Requests) && (s.Speed != 0 || s.First != 0):
		return fmt.Errorf("%s is %v and First %d, but clients that wait for answers have no schedule", "Source.Speed", s.Speed, s.First)
	case open && w.Seed != 0:
		return errors.New("Source.Requests has a Seed, which belongs to the source")
	}
	return nil
}

// reacts reports that requests follow from the answers to others.
func reacts(r Requester) bool {
	switch r.(type) {
	case Sessions, Clients, Workflow, TraceLabReplay:
		return true
	}
	return false
}

// Classes returns the classes of the source.
func (s Source) classes() []sim.Class {
	if w, ok := s.Requests.(Workload); ok {
		return w.Classes()
	}
	return []sim.Class{s.Class}
}

// maxSources is how many sources have IDs of their own.
const maxSources = 1 << 15

// Validate reports the first invalid field. Files of lengths and of arrivals
// are read, those of requests are not.
func (d Document) Validate() error {
	switch {
	case d.Version != 0 && d.Version != documentVersion:
		return fmt.Errorf("%s is %d, want %d", "Document.Version", d.Version, documentVersion)
	case len(d.Sources) == 0 || len(d.Sources) > maxSources:
		return fmt.Errorf("%s are %d, want from 1 to %d", "Document.Sources", len(d.Sources), maxSources)
	}
	seen := map[string]bool{}
	for i, s := range d.Sources {
		if seen[s.Name] {
			return fmt.Errorf("%s[%d].Name %q is not unique", "Document.Sources", i, s.Name)
		}
		seen[s.Name] = true
		if err := s.Validate(); err != nil {
			return fmt.Errorf("%s[%d]: %w", "Document.Sources", i, err)
		}
	}
	if d.Gateway != nil {
		return validate("Document.Gateway", d.Gateway)
	}
	return nil
}

// Classes returns the classes of all sources, one source after the other, for
// sim.Config.Classes.
func (d Document) Classes() []sim.Class {
	var classes []sim.Class
	for _, s := range d.Sources {
		classes = append(classes, s.classes()...)
	}
	return classes
}

// Feedback reports that requests follow from the answers to others, or from
// none: a run needs [Document.Begin] and its FollowUp. A Gateway needs its
// Admission.
func (d Document) Feedback() bool {
	for _, s := range d.Sources {
		if reacts(s.Requests) || s.Retry != nil {
			return true
		}
	}
	return false
}

// Requests yields the requests of a document without feedback, in order of
// arrival. Each iteration starts anew.
func (d Document) Requests() iter.Seq2[sim.Request, error] {
	return func(yield func(sim.Request, error) bool) {
		if d.Feedback() {
			fail(yield, errors.New("the requests of the document depend on answers: Begin makes a run of it"))
			return
		}
		r, err := d.Begin()
		if err != nil {
			yield(sim.Request{}, err)
			return
		}
		r.Requests()(yield)
	}
}

// ReadDocument reads a document. The name is that of its file, in errors and
// for relative paths, which are found beside it. No other file is read.
func ReadDocument(r io.Reader, name string) (Document, error) {
	d, err := readDocument(r, filepath.Dir(name))
	if e := (*documentError)(nil); errors.As(err, &e) {
		return d, fmt.Errorf("workload: %s:%w", name, err)
	}
	if err != nil {
		return d, fmt.Errorf("workload: %s: %w", name, err)
	}
	return d, nil
}

func readDocument(r io.Reader, folder string) (Document, error) {
	place := &documentPlace{folder: folder, reading: true}
	n, err := parseDocument(r, place)
	if err != nil {
		return Document{}, err
	}
	if version := n.member("servesim_workload"); version != nil && version.token != json.Number("1") {
		return Document{}, within(".servesim_workload", version.errorf("version %s, this reads %d", version.what(), documentVersion))
	}
	var d Document
	if err := n.decode(reflect.ValueOf(&d).Elem(), ""); err != nil {
		return Document{}, err
	}
	place.reading = false
	d.place = place
	return d, nil
}

// UnmarshalJSON reads a document that is part of another file. Relative paths
// are those of the process.
func (d *Document) UnmarshalJSON(text []byte) error {
	var err error
	if *d, err = readDocument(bytes.NewReader(text), ""); err != nil {
		return fmt.Errorf("workload: document:%w", err)
	}
	return nil
}

// node is the document as a value.
func (d Document) node() (*node, error) {
	d.Version = documentVersion
	if len(d.Sources) == 0 {
		return nil, errors.New("workload: no Document.Sources")
	}
	n, err := encode(reflect.ValueOf(d), "Document", "")
	if err != nil {
		return nil, fmt.Errorf("workload: %w", err)
	}
	return n, nil
}

// MarshalJSON writes the document on one line. What a document has no place
// for, such as a function, is an error.
func (d Document) MarshalJSON() ([]byte, error) {
	n, err := d.node()
	if err != nil {
		return nil, err
	}
	return n.printLine(nil), nil
}

// WriteTo writes the document for people to read: equal documents alike, with
// the fields in one order.
func (d Document) WriteTo(w io.Writer) (int64, error) {
	n, err := d.node()
	if err != nil {
		return 0, err
	}
	written, err := w.Write(append(n.print(nil, 0, 0), '\n'))
	return int64(written), err
}

// String is the document as WriteTo writes it, or why it cannot be written.
func (d Document) String() string {
	var b strings.Builder
	if _, err := d.WriteTo(&b); err != nil {
		return err.Error()
	}
	return b.String()
}
