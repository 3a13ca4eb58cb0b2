package workload

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"servesim/sim"
	"servesim/sim/trace"
)

// RecordedLengths are the pairs of lengths of a recording, drawn as [Resample]
// draws them. Validate reads the file, once.
type RecordedLengths struct {
	From Requester `doc:"from"` // a recording

	place *documentPlace
	pairs once[Resample]
}

// RecordedArrivals are the arrivals of a recording, replayed with other
// lengths. The file is read as they are.
type RecordedArrivals struct {
	From Requester `doc:"from"` // a recording

	place *documentPlace
}

// ResampledGaps is a process of independent gaps, each drawn from those of a
// recording, equally likely: it has their law and mean, but not their order.
// The first arrival comes one gap after 0. Validate reads the file, once.
type ResampledGaps struct {
	From Requester `doc:"from"` // a recording

	place *documentPlace
	gaps  once[[]time.Duration]
}

// once holds what is read at the first use.
type once[T any] struct {
	do    sync.Once
	value T
	err   error
}

func (o *once[T]) get(read func() (T, error)) (T, error) {
	o.do.Do(func() { o.value, o.err = read() })
	return o.value, o.err
}

// fromFile is a value that needs another file.
type fromFile interface{ foundIn(place *documentPlace) }

func (l *RecordedLengths) foundIn(place *documentPlace)  { l.place = place }
func (a *RecordedArrivals) foundIn(place *documentPlace) { a.place = place }
func (g *ResampledGaps) foundIn(place *documentPlace)    { g.place = place }

// replay returns the requests of a recording.
func replay(field string, from Requester, place *documentPlace) (iter.Seq2[sim.Request, error], error) {
	if _, open := from.(Workload); open || reacts(from) {
		return nil, fmt.Errorf("%s is a %T, want a recording", field, from)
	}
	if err := validate(field, from); err != nil {
		return nil, err
	}
	var o opening
	if place != nil {
		o.folder = place.folder
	}
	f, err := from.feed(o)
	return f.requests, err
}

// inField says whose an error of a sequence is, without a second "workload: ".
func inField(field string, err error) error {
	if inner := errors.Unwrap(err); inner != nil {
		err = inner
	}
	return fmt.Errorf("%s: %w", field, err)
}

// Validate reports an invalid field, or that the file cannot be read.
func (l *RecordedLengths) Validate() error {
	requests, err := replay("RecordedLengths.From", l.From, l.place)
	if err != nil || l.place != nil && l.place.reading {
		return err
	}
	_, err = l.pairs.get(func() (Resample, error) {
		pairs, err := Observed(requests)
		if err != nil {
			return nil, inField("RecordedLengths.From", err)
		}
		return pairs, pairs.Validate()
	})
	return err
}

// Draw implements [Lengths].
func (l *RecordedLengths) Draw(r *rand.Rand) Tokens {
	if l.Validate() != nil {
		return Tokens{}
	}
	return l.pairs.value.Draw(r)
}

// Validate reports an invalid field.
func (a *RecordedArrivals) Validate() error {
	_, err := replay("RecordedArrivals.From", a.From, a.place)
	return err
}

// Times implements [Arrivals].
func (a *RecordedArrivals) Times(*rand.Rand) iter.Seq2[sim.Time, error] {
	return func(yield func(sim.Time, error) bool) {
		requests, err := replay("RecordedArrivals.From", a.From, a.place)
		if err != nil {
			fail(yield, err)
			return
		}
		for q, err := range requests {
			if !yield(q.Arrival, err) || err != nil {
				return
			}
		}
	}
}

// Validate reports an invalid field, or that the file cannot be read.
func (g *ResampledGaps) Validate() error {
	requests, err := replay("ResampledGaps.From", g.From, g.place)
	if err != nil || g.place != nil && g.place.reading {
		return err
	}
	_, err = g.gaps.get(func() (gaps []time.Duration, err error) {
		last := sim.NoTime
		for q, err := range requests {
			if err != nil {
				return nil, inField("ResampledGaps.From", err)
			}
			if last != sim.NoTime {
				gaps = append(gaps, q.Arrival.Sub(last))
			}
			last = q.Arrival
		}
		for _, gap := range gaps {
			if gap > 0 {
				return gaps, nil
			}
		}
		return nil, errors.New("ResampledGaps.From has no gap above 0")
	})
	return err
}

// Times implements [Arrivals].
func (g *ResampledGaps) Times(r *rand.Rand) iter.Seq2[sim.Time, error] {
	return renewal(g, func() float64 { return g.gaps.value[r.IntN(len(g.gaps.value))].Seconds() })
}

// TraceLabOpenLoop is a [TraceLab] recording in open loop, as if every answer
// needed FirstToken to its first token and PerToken for each further one: the
// feedback of the sessions is lost.
type TraceLabOpenLoop struct {
	TraceLab
	FirstToken time.Duration `doc:"assume_ttft_ms"`
	PerToken   time.Duration `doc:"assume_itl_ms"`
}

// Validate reports an invalid field.
func (t TraceLabOpenLoop) Validate() error {
	if t.FirstToken < 0 || t.PerToken < 0 {
		return fmt.Errorf("%s is %v and PerToken %v, want at least 0", "TraceLabOpenLoop.FirstToken", t.FirstToken, t.PerToken)
	}
	return t.TraceLab.Validate()
}

// Requests replays the recording in open loop.
func (t TraceLabOpenLoop) Requests() iter.Seq2[sim.Request, error] {
	t.OpenLoop = func(r TraceLabRound) time.Duration {
		return t.FirstToken + time.Duration(max(0, r.Output-1))*t.PerToken
	}
	return t.TraceLab.Requests()
}

// TraceFile is a file of trace records, plain or gzip, as requests: see
// [FromTrace].
type TraceFile struct {
	Path string `doc:"path"`
}

// Requests yields the requests of the records, all of which are held.
func (f TraceFile) Requests() iter.Seq2[sim.Request, error] {
	return f.requests(func() (io.ReadCloser, error) { return os.Open(f.Path) })
}

func (f TraceFile) requests(open func() (io.ReadCloser, error)) iter.Seq2[sim.Request, error] {
	return func(yield func(sim.Request, error) bool) {
		in, err := open()
		if err != nil {
			fail(yield, err)
			return
		}
		defer in.Close()
		b, err := unzip(f.Path, in)
		if err != nil {
			fail(yield, err)
			return
		}
		FromTrace(trace.Read(b, f.Path))(yield)
	}
}
