package workload

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"time"

	"servesim/sim"
	"servesim/sim/kv"
)

// Workload is an open-loop workload: requests arrive when they arrive, however
// the engine fares.
type Workload struct {
	// Seed determines everything that is drawn.
	Seed uint64 `doc:"-"`
	// Arrivals says when requests arrive. Unless it ends, neither does the
	// workload.
	Arrivals Arrivals `doc:"arrivals"`
	// Mix says what they are: the class of each request is drawn by weight,
	// independently. Request.Class indexes it. A class that is added, or
	// whose weight grows, takes requests from the others; those that stay
	// where they are do not change.
	Mix []Share `doc:"mix"`
	// PrefixBlock is the block size of the hash chains of prompts and outputs; 0
	// makes none.
	PrefixBlock int `doc:"prefix_block_tokens,opt"`

	part string // of a Merged or a Document
}

// Share is one class of requests in a [Workload].
type Share struct {
	// Class has the name, the priority and the latency targets.
	Class sim.Class `doc:"class,opt"`
	// Weight is the class's part of the requests after division by the sum of
	// all weights; at least 0. The only share of a mix needs none.
	Weight float64 `doc:"weight,opt"`
	// Lengths draws prompt and output.
	Lengths Lengths `doc:"lengths"`
	// Preamble draws the texts in front of the prompt that Lengths draws, by which
	// the prompt is longer. nil means none.
	Preamble Preamble `doc:"preamble,opt"`
	// Texts is the name of what Preamble takes its texts from: shares of one name
	// have them in common. By default each class has its own.
	Texts string `doc:"texts,opt"`
	// MaxOutput is what the clients ask for at most. An output drawn longer
	// is cut by the engine. 0 means no limit.
	MaxOutput int `doc:"max_output_tokens,opt"`
	// Hint gives requests a prediction of their output. nil means none.
	Hint *Hint `doc:"hint,opt"`
	// Deadline is given to policies, counted from the arrival. 0 means none.
	Deadline time.Duration `doc:"deadline_ms,opt"`
	// Patience says when clients give up.
	Patience sim.Patience `doc:"patience,opt"`
}

// Hint is a prediction of the output length with a log-normal error:
// Output·exp(Sigma·z), rounded, at least 1. Sigma 0 predicts exactly.
type Hint struct {
	Sigma float64 `doc:"sigma"`
}

// Classes returns the classes of the mix, for sim.Config.Classes.
func (w Workload) Classes() []sim.Class {
	classes := make([]sim.Class, len(w.Mix))
	for i, s := range w.Mix {
		classes[i] = s.Class
	}
	return classes
}

// Requests yields the requests in order of arrival, made one at a time. Each
// iteration starts anew and yields the same requests. The ID of a request is
// its number in the workload, from 0. An invalid field, an error of the
// arrival process or a length below 1 ends the sequence with an error.
func (w Workload) Requests() iter.Seq2[sim.Request, error] {
	return func(yield func(sim.Request, error) bool) {
		if err := w.Validate(); err != nil {
			fail(yield, err)
			return
		}
		d := newDrawer(w)
		last := sim.Time(0)
		for t, err := range w.Arrivals.Times(rand.New(Stream(w.Seed, "arrivals", 0))) {
			if err != nil {
				yield(sim.Request{}, err)
				return
			}
			if t < last {
				fail(yield, fmt.Errorf("Workload.Arrivals: arrival %d is at %dns, before %dns", d.next, int64(t), int64(last)))
				return
			}
			last = t
			q, err := d.request(t)
			if err != nil {
				fail(yield, err)
				return
			}
			if !yield(q, nil) {
				return
			}
		}
	}
}

// drawer makes the requests of one iteration.
type drawer struct {
	mix  []Share
	next int // ID of the next request

	classes              []*family // one per class, nil for a single one
	classRands           []*rand.Rand
	lengths, hints       *family
	lengthRand, hintRand *rand.Rand

	block        int
	preambles    []func([]Text, int64, *rand.Rand) []Text // one per class, nil without
	salts        []string                                 // one per class
	texts        *family
	preambleRand *rand.Rand
	own          uint64 // of the IDs of texts that requests do not share
	scratch      transcript
}

func newDrawer(w Workload) *drawer {
	d := &drawer{
		mix:     w.Mix,
		lengths: newFamily(w.Seed, "lengths"),
		hints:   newFamily(w.Seed, "hint"),
		texts:   newFamily(w.Seed, "preamble"),
		own:     newFamily(w.Seed, "texts "+w.part).key0,
		block:   w.PrefixBlock,
	}
	d.lengthRand, d.hintRand, d.preambleRand = rand.New(d.lengths), rand.New(d.hints), rand.New(d.texts)
	for _, s := range w.Mix {
		var draw func([]Text, int64, *rand.Rand) []Text
		if s.Preamble != nil {
			draw = s.Preamble.Begin(w.Seed)
		}
		salt := "texts " + s.Texts
		if s.Texts == "" {
			salt = fmt.Sprintf("class %q of %q", s.Class.Name, w.part)
		}
		d.preambles, d.salts = append(d.preambles, draw), append(d.salts, salt)
	}
	if len(w.Mix) > 1 {
		named := map[string]int{}
		for _, s := range w.Mix {
			// Keyed by name, not place. Classes of one name are told apart
			// by their order.
			f := newFamily(w.Seed, fmt.Sprintf("class %q %d", s.Class.Name, named[s.Class.Name]))
			named[s.Class.Name]++
			d.classes, d.classRands = append(d.classes, f), append(d.classRands, rand.New(f))
		}
	}
	return d
}

// request draws the next request. Every draw comes from the request's own
// stream of its purpose, whatever the others took.
func (d *drawer) request(t sim.Time) (sim.Request, error) {
	id := d.next
	d.next++
	class := d.class(id)
	s := &d.mix[class]
	d.lengths.rewind(uint64(id))
	n := s.Lengths.Draw(d.lengthRand)
	if n.Prompt < 1 || n.Output < 1 {
		return sim.Request{}, fmt.Errorf("Workload.Mix[%d].Lengths drew prompt %d, output %d for request %d, want at least 1",
			class, n.Prompt, n.Output, id)
	}
	q := sim.Request{
		ID:        id,
		Arrival:   t,
		Prompt:    n.Prompt,
		Output:    n.Output,
		MaxOutput: s.MaxOutput,
		Class:     class,
		Patience:  s.Patience,
	}
	if err := d.prefix(&q); err != nil {
		return sim.Request{}, err
	}
	if s.Hint != nil {
		d.hints.rewind(uint64(id))
		q.Hint = clip(float64(n.Output)*math.Exp(s.Hint.Sigma*d.hintRand.NormFloat64()), 1, 0)
	}
	if s.Deadline > 0 {
		q.Deadline = t.Add(s.Deadline)
	}
	return q, nil
}

// prefix puts the preamble in front of a request.
func (d *drawer) prefix(q *sim.Request) error {
	t := &d.scratch
	*t = transcript{block: d.block, salt: d.salts[q.Class], texts: t.texts[:0], pieces: t.pieces}
	if draw := d.preambles[q.Class]; draw != nil {
		d.texts.rewind(uint64(q.ID))
		t.texts = draw(t.texts, int64(q.ID), d.preambleRand)
	}
	if err := t.measure(); err != nil {
		return fmt.Errorf("Workload.Mix[%d].Preamble drew %w for request %d", q.Class, err, q.ID)
	}
	q.Prompt += t.tokens
	if q.Prompt > maxTokens {
		return fmt.Errorf("Workload.Mix[%d].Preamble makes a prompt of %d tokens of request %d, want at most %d", q.Class, q.Prompt, q.ID, maxTokens)
	}
	if d.block == 0 {
		return nil
	}
	t.add(Text{ID: mix(d.own ^ uint64(q.ID)), Tokens: q.Prompt + q.Output - t.tokens})
	t.chain = make([]kv.Hash, 0, t.tokens/d.block)
	q.Prefix, q.PrefixBlock = t.hash(), d.block
	return nil
}

// class lets the classes race: each draws an exponential time of its own, with
// its weight as rate, and the earliest has the request. A class wins in
// proportion to its weight, and one more takes only what it wins itself.
func (d *drawer) class(id int) int {
	winner, earliest := 0, math.Inf(1)
	for i, f := range d.classes {
		if d.mix[i].Weight == 0 {
			continue
		}
		f.rewind(uint64(id))
		if t := d.classRands[i].ExpFloat64() / d.mix[i].Weight; t < earliest {
			winner, earliest = i, t
		}
	}
	return winner
}

// Validate reports the first invalid field, also of the arrival process and
// the lengths if they have a Validate method.
func (w Workload) Validate() error {
	if err := validate("Workload.Arrivals", w.Arrivals); err != nil {
		return err
	}
	if len(w.Mix) == 0 {
		return errors.New("no classes in Workload.Mix")
	}
	if err := checkTokens("Workload.PrefixBlock", w.PrefixBlock); err != nil {
		return err
	}
	weights := make([]float64, len(w.Mix))
	for i := range w.Mix {
		field := fmt.Sprintf("Workload.Mix[%d]", i)
		if err := w.Mix[i].validate(field); err != nil {
			return err
		}
		weights[i] = w.Mix[i].Weight
	}
	if len(w.Mix) == 1 && w.Mix[0].Weight == 0 {
		return nil
	}
	return checkWeights("Workload.Mix weights", weights)
}

func (s *Share) validate(field string) error {
	if err := checkNotNegative(field+".Weight", s.Weight); err != nil {
		return err
	}
	if err := validate(field+".Lengths", s.Lengths); err != nil {
		return err
	}
	if s.Preamble != nil {
		if err := validate(field+".Preamble", s.Preamble); err != nil {
			return err
		}
	}
	if s.MaxOutput < 0 {
		return fmt.Errorf("%s.MaxOutput is %d, want at least 0", field, s.MaxOutput)
	}
	if s.Hint != nil {
		if err := checkNotNegative(field+".Hint.Sigma", s.Hint.Sigma); err != nil {
			return err
		}
	}
	for _, f := range []struct {
		name  string
		value time.Duration
	}{
		{"Class.TTFT", s.Class.TTFT}, {"Class.Gap", s.Class.Gap}, {"Deadline", s.Deadline},
		{"Patience.First", s.Patience.First}, {"Patience.Total", s.Patience.Total},
	} {
		if f.value < 0 {
			return fmt.Errorf("%s.%s is %v, want at least 0", field, f.name, f.value)
		}
	}
	return nil
}
