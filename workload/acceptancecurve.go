package workload

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// maxDrafts bounds the drafts of a curve; measured ones have 8.
const maxDrafts = 1024

// AcceptanceCurve is a measurement: how many tokens a verification step brings
// in the mean, by the number of drafts.
type AcceptanceCurve struct {
	Model, Mode string // such as glm-5.2-fp8, thinking_on
	// MeanLength[k-1] is the mean tokens per step with k drafts, those
	// confirmed and the model's own: from 1 to 1 + k.
	MeanLength []float64
}

// Validate names the first mean that no drafter can have.
func (c AcceptanceCurve) Validate() error {
	if len(c.MeanLength) == 0 {
		return errors.New("AcceptanceCurve.MeanLength is empty")
	}
	for i, mean := range c.MeanLength {
		if err := checkMeanLength(i+1, mean); err != nil {
			return fmt.Errorf("AcceptanceCurve.MeanLength[%d]: %w", i, err)
		}
	}
	return nil
}

func checkMeanLength(drafts int, mean float64) error {
	if !(mean >= 1 && mean <= float64(1+drafts)) {
		return fmt.Errorf("a mean accepted length of %v with %d drafts, want 1 to %d", mean, drafts, 1+drafts)
	}
	return nil
}

// Fit returns the acceptance that reproduces the curve, and the largest
// difference between the mean lengths of the two.
//
// If drafts do not depend on how many follow them, what the k-th one adds to
// the mean is the probability that k drafts are right. That can neither be
// negative nor rise with k, while measured curves bend up and fall by their
// noise. Fit takes the probabilities with the least squared distance from what
// is measured (the pool-adjacent-violators algorithm; Barlow, Bartholomew,
// Bremner and Brunk: Statistical Inference under Order Restrictions, 1972):
// where the additions rise they are averaged, and negative ones count as 0. The
// fitted curve is the lowest one of that shape which is nowhere below the
// measured one: deviation is how far it is above. It is 0, but for rounding,
// for a curve that has the shape already.
//
// Beyond the measured drafts none is right.
func (c AcceptanceCurve) Fit(seed uint64) (a Acceptance, deviation float64, err error) {
	if err := c.Validate(); err != nil {
		return Acceptance{}, 0, err
	}
	a = Acceptance{Seed: seed}
	before, mean := 1.0, 1.0
	for k, added := range falling(c.MeanLength) {
		// The first addition is an average of values whose sum from the
		// beginning is at most their number; rounding may exceed 1.
		reach := min(max(added, 0), before)
		if before > 0 {
			a.Conditional = append(a.Conditional, reach/before)
		}
		before = reach
		mean += reach
		deviation = max(deviation, math.Abs(mean-c.MeanLength[k]))
	}
	if before > 0 {
		a.Conditional = append(a.Conditional, 0)
	}
	return a, deviation, nil
}

// falling returns what each draft adds to the mean, averaged over the least
// number of neighbours so that it does not rise.
func falling(mean []float64) []float64 {
	type pool struct {
		from, to int // mean[to-1] - mean[from-1], with 1 before the first
		slope    float64
	}
	level := func(k int) float64 {
		if k == 0 {
			return 1
		}
		return mean[k-1]
	}
	var pools []pool
	for k := range mean {
		p := pool{from: k, to: k + 1, slope: level(k+1) - level(k)}
		for n := len(pools) - 1; n >= 0 && pools[n].slope < p.slope; n-- {
			p.from = pools[n].from
			p.slope = (level(p.to) - level(p.from)) / float64(p.to-p.from)
			pools = pools[:n]
		}
		pools = append(pools, p)
	}
	out := make([]float64, 0, len(mean))
	for _, p := range pools {
		for range p.to - p.from {
			out = append(out, p.slope)
		}
	}
	return out
}

// ReadAcceptance reads measured curves in the layout of InferenceX, the part of
// YAML that it uses:
//
//	# comment
//	model:
//	  mode:
//	    1: 1.83
//	    2: 2.43
//
// Drafts count from 1 without holes. Curves come in the order of the file.
// Errors name the file, as name, and the line.
func ReadAcceptance(name string, r io.Reader) ([]AcceptanceCurve, error) {
	l, err := newLines(name, r, maxLine)
	if err != nil {
		return nil, err
	}
	in := acceptanceReader{lines: l, seen: map[[2]string]bool{}}
	if err := l.each(in.line); err != nil {
		return nil, err
	}
	if err := in.endModel(); err != nil {
		return nil, err
	}
	if len(in.curves) == 0 {
		return nil, fmt.Errorf("%s: no curve in the file", name)
	}
	return in.curves, nil
}

type acceptanceReader struct {
	*lines
	model  string
	curves []AcceptanceCurve
	open   bool // the last curve belongs to model
	seen   map[[2]string]bool
}

func (in *acceptanceReader) line(line []byte) (more bool, err error) {
	line, _, _ = bytes.Cut(line, []byte("#"))
	text := strings.TrimRight(string(line), " \t")
	if text == "" {
		return true, nil
	}
	indent := len(text) - len(strings.TrimLeft(text, " "))
	key, value, ok := strings.Cut(text[indent:], ":")
	value = strings.TrimSpace(value)
	switch {
	case !ok || key == "" || strings.ContainsAny(key, " \t"):
		return false, in.errorf("%q is not a key with a colon", text)
	case indent == 0 && value == "":
		err = in.endModel()
		in.model, in.open = key, false
	case indent == 2 && value == "" && in.model != "":
		err = in.startCurve(key)
	case indent == 4 && value != "" && in.open:
		err = in.add(key, value)
	default:
		err = in.errorf("%q has no place: want a model, a mode indented by 2 or drafts and a mean length indented by 4", text)
	}
	return err == nil, err
}

func (in *acceptanceReader) startCurve(mode string) error {
	if err := in.endMode(); err != nil {
		return err
	}
	key := [2]string{in.model, mode}
	if in.seen[key] {
		return in.errorf("%s %s is there twice", in.model, mode)
	}
	in.seen[key] = true
	in.curves = append(in.curves, AcceptanceCurve{Model: in.model, Mode: mode})
	in.open = true
	return nil
}

// endMode refuses a mode without lengths.
func (in *acceptanceReader) endMode() error {
	if !in.open {
		return nil
	}
	if c := in.curves[len(in.curves)-1]; len(c.MeanLength) == 0 {
		return in.errorf("%s %s has no mean length", c.Model, c.Mode)
	}
	return nil
}

// endModel refuses a model without modes.
func (in *acceptanceReader) endModel() error {
	if in.model != "" && !in.open {
		return in.errorf("%s has no mode", in.model)
	}
	return in.endMode()
}

func (in *acceptanceReader) add(key, value string) error {
	c := &in.curves[len(in.curves)-1]
	want := len(c.MeanLength) + 1
	if want > maxDrafts {
		return in.errorf("more than %d drafts", maxDrafts)
	}
	if key != strconv.Itoa(want) {
		return in.errorf("drafts are %q, want %d", key, want)
	}
	mean, err := strconv.ParseFloat(value, 64)
	if err != nil {
		return in.errorf("%q is not a number", value)
	}
	if err := checkMeanLength(want, mean); err != nil {
		return in.errorf("%w", err)
	}
	c.MeanLength = append(c.MeanLength, mean)
	return nil
}
