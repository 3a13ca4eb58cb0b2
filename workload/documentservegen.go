package workload

import (
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"servesim/sim"
)

// ServeGenRecordedArrivals are the arrivals of ServeGen's client parameters, of
// one client or of all added up, in their windows: see [ServeGenClient]. Validate
// reads the file, once.
type ServeGenRecordedArrivals struct {
	Path   string        `doc:"path"`        // of the rates
	Client string        `doc:"client,opt"`  // by name; empty means all
	Width  time.Duration `doc:"width_s,opt"` // of every window; 0 means 600 s

	place    *documentPlace
	arrivals once[Superpose]
}

// ServeGenRecordedLengths are the lengths of a client of ServeGen's client
// parameters in one of its windows: see [ServeGenLengthWindow]. Validate reads the
// file, once.
type ServeGenRecordedLengths struct {
	Path   string        `doc:"path"` // of the lengths
	Client string        `doc:"client"`
	Start  time.Duration `doc:"window_start_s,opt"` // of the window
	// Prompt and Output are the fields drawn from; empty means input_tokens and
	// output_tokens.
	Prompt string `doc:"prompt_field,opt"`
	Output string `doc:"output_field,opt"`

	place   *documentPlace
	lengths once[ServeGenLengths]
}

func (a *ServeGenRecordedArrivals) foundIn(place *documentPlace) { a.place = place }
func (l *ServeGenRecordedLengths) foundIn(place *documentPlace)  { l.place = place }

// servegenIn returns the parameters that a document names.
func servegenIn(place *documentPlace, path string) ServeGen {
	var o opening
	if place != nil {
		o.folder = place.folder
	}
	return ServeGen{Path: o.path(path)}
}

// Validate reports an invalid field, or that the file cannot be read.
func (a *ServeGenRecordedArrivals) Validate() error {
	if a.Width < 0 {
		return fmt.Errorf("%s is %v, want at least 0", "ServeGenRecordedArrivals.Width", a.Width)
	}
	if a.place != nil && a.place.reading {
		return nil
	}
	_, err := a.arrivals.get(a.read)
	return err
}

func (a *ServeGenRecordedArrivals) read() (all Superpose, err error) {
	for c, err := range servegenIn(a.place, a.Path).Clients() {
		if err != nil {
			return nil, inField("ServeGenRecordedArrivals.Path", err)
		}
		if a.Client == "" || c.Name == a.Client {
			w := c.Arrivals()
			w.Width = a.Width
			all = append(all, w)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s is %q, which is not in %s", "ServeGenRecordedArrivals.Client", a.Client, a.Path)
	}
	return all, all.Validate()
}

// Times implements [Arrivals].
func (a *ServeGenRecordedArrivals) Times(r *rand.Rand) iter.Seq2[sim.Time, error] {
	return func(yield func(sim.Time, error) bool) {
		if err := a.Validate(); err != nil {
			fail(yield, err)
			return
		}
		a.arrivals.value.Times(r)(yield)
	}
}

// Validate reports an invalid field, or that the file cannot be read.
func (l *ServeGenRecordedLengths) Validate() error {
	if l.Client == "" {
		return errors.New("ServeGenRecordedLengths.Client is empty")
	}
	if l.place != nil && l.place.reading {
		return nil
	}
	_, err := l.lengths.get(l.read)
	return err
}

func (l *ServeGenRecordedLengths) read() (ServeGenLengths, error) {
	prompt, output := l.Prompt, l.Output
	if prompt == "" {
		prompt = "input_tokens"
	}
	if output == "" {
		output = "output_tokens"
	}
	for c, err := range servegenIn(l.place, l.Path).Lengths() {
		if err != nil {
			return ServeGenLengths{}, inField("ServeGenRecordedLengths.Path", err)
		}
		if c.Name != l.Client {
			continue
		}
		for _, w := range c.Windows {
			if w.Start != l.Start {
				continue
			}
			lengths, err := w.Lengths(prompt, output)
			if err != nil {
				err = inField("ServeGenRecordedLengths.Start", err)
			}
			return lengths, err
		}
		return ServeGenLengths{}, fmt.Errorf("%s is %v, where no window of %q begins", "ServeGenRecordedLengths.Start", l.Start, l.Client)
	}
	return ServeGenLengths{}, fmt.Errorf("%s is %q, which is not in %s", "ServeGenRecordedLengths.Client", l.Client, l.Path)
}

// Draw implements [Lengths].
func (l *ServeGenRecordedLengths) Draw(r *rand.Rand) Tokens {
	if l.Validate() != nil {
		return Tokens{}
	}
	return l.lengths.value.Draw(r)
}
