package costmodel

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/optimize"
)

// Form is a formula for a time with coefficients to be found: of an operator,
// such as [KernelForm], or of a whole step, such as [LinearForm].
type Form struct {
	Name       string
	Inputs     []string // names and units of Sample.Inputs
	Parameters []Parameter
	// Seconds evaluates the formula. It must be positive within the bounds of
	// the parameters, and must not keep its arguments.
	Seconds func(parameters, inputs []float64) float64
}

// Parameter is a coefficient of a Form.
type Parameter struct {
	Name  string
	Unit  string  // "" for a share or an exponent
	Start float64 // where the search begins, strictly between Low and High
	Low   float64
	High  float64
	// Neutral is the value at which the parameter has no effect. [Calibration.Without]
	// fits the others beside it.
	Neutral float64
}

// Calibration is a Form with its coefficients and how far they can be trusted.
type Calibration struct {
	Form         Form
	From         Provenance
	Samples      int
	Groups       int
	Coefficients []Coefficient
	// Residuals are predicted/measured - 1 of the samples, in their order.
	Residuals []float64
	Fitted    Accuracy // on the samples of the fit
	// CrossValidated is the accuracy on groups that each fit left out. N is 0
	// if there are fewer than two groups.
	CrossValidated Accuracy
	// Held is the accuracy on measurements that were kept aside from the fit, of
	// calibrations of the catalogue. N is 0 elsewhere.
	Held Accuracy

	samples []Sample
}

// Coefficient is a fitted parameter.
type Coefficient struct {
	Name  string
	Unit  string
	Value float64
	// Error is the standard error, by a jackknife over the folds of the
	// cross-validation, so that samples of one group count as one witness. It
	// is NaN without cross-validation.
	Error float64
	// AtBound says that the search ended at Low or High: the samples do not
	// determine this coefficient.
	AtBound bool
}

// folds is the number of parts of the cross-validation.
const folds = 5

// Fit finds the coefficients of form that describe the samples best: those
// with the least mean error, in per cent, with errors below a few per cent
// counted by their square so that the minimum is smooth. A few wild samples do
// not move it. The same samples give the same coefficients.
//
// It is an error if the provenance is incomplete, a sample is not valid, there
// are fewer samples than parameters, or the form is not positive.
func Fit(form Form, samples []Sample, from Provenance) (*Calibration, error) {
	c, err := fit(form, samples, from)
	if err != nil {
		return nil, err
	}
	return c, c.crossValidate(c.Values())
}

// fit is Fit without cross-validation.
func fit(form Form, samples []Sample, from Provenance) (*Calibration, error) {
	if err := from.Validate(); err != nil {
		return nil, err
	}
	if err := form.validate(); err != nil {
		return nil, err
	}
	for i := range samples {
		if err := checkSample(&samples[i], form.Inputs); err != nil {
			return nil, err
		}
	}
	if len(samples) <= len(form.Parameters) {
		return nil, fmt.Errorf("costmodel: %d samples do not determine the %d parameters of %s", len(samples), len(form.Parameters), form.Name)
	}
	start := make([]float64, len(form.Parameters))
	for i, p := range form.Parameters {
		start[i] = p.Start
	}
	best, err := search(form, samples, start)
	if err != nil {
		return nil, err
	}
	c := &Calibration{Form: form, From: from, Samples: len(samples), Residuals: residuals(form, best, samples), samples: samples}
	c.Fitted = AccuracyOf(c.Residuals)
	for i, p := range form.Parameters {
		c.Coefficients = append(c.Coefficients, Coefficient{p.Name, p.Unit, best[i], math.NaN(), p.atBound(best[i])})
	}
	c.CrossValidated, c.Held = AccuracyOf(nil), AccuracyOf(nil)
	return c, nil
}

// NewCalibration returns form with coefficients that were found before, in the
// order of its parameters. It is an error if the provenance is incomplete, or a
// coefficient is missing or outside the range of its parameter.
func NewCalibration(form Form, values []float64, from Provenance) (*Calibration, error) {
	if err := from.Validate(); err != nil {
		return nil, err
	}
	if err := form.validate(); err != nil {
		return nil, err
	}
	if len(values) != len(form.Parameters) {
		return nil, fmt.Errorf("costmodel: %d coefficients for the %d parameters of %s", len(values), len(form.Parameters), form.Name)
	}
	c := &Calibration{Form: form, From: from, Fitted: AccuracyOf(nil), CrossValidated: AccuracyOf(nil), Held: AccuracyOf(nil)}
	for i, p := range form.Parameters {
		if !(values[i] >= p.Low && values[i] <= p.High) {
			return nil, fmt.Errorf("costmodel: %s of %s is %v, not in [%v, %v]", p.Name, form.Name, values[i], p.Low, p.High)
		}
		c.Coefficients = append(c.Coefficients, Coefficient{p.Name, p.Unit, values[i], math.NaN(), p.atBound(values[i])})
	}
	return c, nil
}

// crossValidate fits each fold's complement, from the coefficients of all.
func (c *Calibration) crossValidate(best []float64) error {
	var groups []string
	for i := range c.samples {
		groups = append(groups, c.samples[i].Group)
	}
	slices.Sort(groups)
	groups = slices.Compact(groups)
	c.Groups = len(groups)
	n := min(folds, len(groups))
	if n < 2 {
		return nil
	}
	fold := map[string]int{}
	for i, g := range groups {
		fold[g] = i % n
	}
	var left []float64
	values := make([][]float64, n)
	for f := range n {
		var in, out []Sample
		for _, s := range c.samples {
			if fold[s.Group] == f {
				out = append(out, s)
			} else {
				in = append(in, s)
			}
		}
		if len(in) <= len(best) {
			return nil
		}
		x, err := search(c.Form, in, best)
		if err != nil {
			return err
		}
		values[f] = x
		left = append(left, residuals(c.Form, x, out)...)
	}
	c.CrossValidated = AccuracyOf(left)
	for i := range c.Coefficients {
		mean, sum := 0.0, 0.0
		for f := range n {
			mean += values[f][i] / float64(n)
		}
		for f := range n {
			sum += (values[f][i] - mean) * (values[f][i] - mean)
		}
		c.Coefficients[i].Error = math.Sqrt(sum * float64(n-1) / float64(n))
	}
	return nil
}

// Seconds predicts the time for inputs.
func (c *Calibration) Seconds(inputs ...float64) float64 {
	var x [maxParameters]float64
	for i := range c.Coefficients {
		x[i] = c.Coefficients[i].Value
	}
	return c.Form.Seconds(x[:len(c.Coefficients)], inputs)
}

// Values returns the coefficients in the order of Form.Parameters.
func (c *Calibration) Values() []float64 {
	x := make([]float64, len(c.Coefficients))
	for i := range x {
		x[i] = c.Coefficients[i].Value
	}
	return x
}

// Test predicts other samples and returns predicted/measured - 1 of each.
func (c *Calibration) Test(samples []Sample) []float64 {
	return residuals(c.Form, c.Values(), samples)
}

// Without fits the same samples with one parameter at its Neutral value, to
// see whether it earns its place. The result is not cross-validated.
func (c *Calibration) Without(parameter string) (*Calibration, error) {
	form, err := c.Form.Without(parameter)
	if err != nil {
		return nil, err
	}
	return fit(form, c.samples, c.From)
}

// Without returns the form with one parameter at its Neutral value.
func (f Form) Without(parameter string) (Form, error) {
	i := slices.IndexFunc(f.Parameters, func(p Parameter) bool { return p.Name == parameter })
	if i < 0 {
		return Form{}, fmt.Errorf("costmodel: %s has no parameter %q", f.Name, parameter)
	}
	full, value := f.Seconds, f.Parameters[i].Neutral
	f.Name += " without " + parameter
	f.Parameters = slices.Delete(slices.Clone(f.Parameters), i, i+1)
	f.Seconds = func(parameters, inputs []float64) float64 {
		var all [maxParameters]float64
		copy(all[:i], parameters[:i])
		all[i] = value
		copy(all[i+1:], parameters[i:])
		return full(all[:len(parameters)+1], inputs)
	}
	return f, nil
}

// maxParameters bounds the parameters of a form, so that evaluation needs no
// allocation.
const maxParameters = 16

func (f Form) validate() error {
	switch {
	case f.Seconds == nil:
		return errors.New("costmodel: Form.Seconds is nil")
	case len(f.Parameters) == 0 || len(f.Parameters) > maxParameters:
		return fmt.Errorf("costmodel: form %s has %d parameters, not 1 to %d", f.Name, len(f.Parameters), maxParameters)
	}
	for _, p := range f.Parameters {
		if !(p.Low < p.Start && p.Start < p.High) || math.IsInf(p.High-p.Low, 0) {
			return fmt.Errorf("costmodel: parameter %s of %s starts at %v, not between %v and %v", p.Name, f.Name, p.Start, p.Low, p.High)
		}
	}
	return nil
}

// residuals returns predicted/measured - 1.
func residuals(form Form, parameters []float64, samples []Sample) []float64 {
	r := make([]float64, len(samples))
	for i := range samples {
		r[i] = form.Seconds(parameters, samples[i].Inputs)/samples[i].Seconds - 1
	}
	return r
}

// smooth is the error below which the loss is quadratic.
const smooth = 0.03

// loss is the mean over the samples of √(smooth² + e²) - smooth, where e is the
// logarithm of predicted/measured. It is +Inf where the form is not positive.
func loss(form Form, parameters []float64, samples []Sample) float64 {
	sum := 0.0
	for i := range samples {
		s := form.Seconds(parameters, samples[i].Inputs)
		if !(s > 0) {
			return math.Inf(1)
		}
		e := math.Log(s / samples[i].Seconds)
		sum += math.Sqrt(smooth*smooth+e*e) - smooth
	}
	return sum / float64(len(samples))
}

// search minimises the loss from start: quasi-Newton steps with numerical
// derivatives, over coordinates that keep every parameter within its bounds.
func search(form Form, samples []Sample, start []float64) ([]float64, error) {
	value := make([]float64, len(start))
	at := func(u []float64) float64 {
		for i, p := range form.Parameters {
			value[i] = p.bounded(u[i])
		}
		return loss(form, value, samples)
	}
	u := make([]float64, len(start))
	for i, p := range form.Parameters {
		u[i] = p.free(start[i])
	}
	if math.IsInf(at(u), 0) || math.IsNaN(at(u)) {
		return nil, fmt.Errorf("costmodel: %s is not positive at its start", form.Name)
	}
	const step = 1e-4
	problem := optimize.Problem{Func: at, Grad: func(gradient, u []float64) {
		for i := range u {
			x := u[i]
			u[i] = x + step
			up := at(u)
			u[i] = x - step
			gradient[i] = (up - at(u)) / (2 * step)
			u[i] = x
		}
	}}
	settings := &optimize.Settings{
		MajorIterations: 200, GradientThreshold: 1e-6,
		Converger: &optimize.FunctionConverge{Relative: 1e-7, Iterations: 5},
	}
	best, lowest := slices.Clone(u), at(u)
	r, err := optimize.Minimize(problem, best, settings, &optimize.BFGS{})
	switch {
	case r == nil:
		return nil, fmt.Errorf("costmodel: fitting %s: %w", form.Name, err)
	case r.F < lowest: // a line search that cannot go on has found a minimum all the same
		best = slices.Clone(r.X)
	}
	for i, p := range form.Parameters {
		value[i] = p.bounded(best[i])
	}
	return value, nil
}

// bounded maps any real number into the range of p: on a logarithmic scale if
// the range is positive.
func (p Parameter) bounded(u float64) float64 {
	s := 1 / (1 + math.Exp(-u))
	if p.Low > 0 {
		return p.Low * math.Pow(p.High/p.Low, s)
	}
	return p.Low + (p.High-p.Low)*s
}

// free is the inverse of bounded. Values at an end are taken to be just inside.
func (p Parameter) free(x float64) float64 {
	s := (x - p.Low) / (p.High - p.Low)
	if p.Low > 0 {
		s = math.Log(x/p.Low) / math.Log(p.High/p.Low)
	}
	s = min(max(s, 1e-9), 1-1e-9)
	return math.Log(s / (1 - s))
}

// atBound reports whether x is within a thousandth of an end of the range.
func (p Parameter) atBound(x float64) bool {
	if p.Low > 0 {
		return x < p.Low*1.01 || x > p.High/1.001
	}
	return x-p.Low < 1e-6*(p.High-p.Low) || p.High-x < 1e-3*(p.High-p.Low)
}
