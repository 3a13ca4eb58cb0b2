package costmodel

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// MeasuredKernels are fits to kernels of one GPU, each in place of a Kernel of
// an [Efficiency]. What is nil keeps its Kernel, and so does latent attention,
// which none of the forms is about. Of a fit only the coefficients are used,
// with the rates and bandwidths of Setup.GPU: a GPU may borrow those of another
// one. The cache of the device is left out, as by [Calibration.Cold], but for
// activations.
//
// A fit knows the shape of an operator, so that it is much closer than a Kernel:
// small products, few sequences and single rows are not slow by the same share.
type MeasuredKernels struct {
	// Products are of MatrixForm and Experts of ExpertsForm. A precision without a
	// fit takes that of the catalogue's first precision that computes in the
	// same numbers, with its own bytes.
	Products, Experts map[Precision]*Calibration
	Attention         AttentionKernels // with a cache of two bytes a value
	// NarrowAttention is with a cache of one byte a value or less; what is nil
	// takes the coefficients of Attention.
	NarrowAttention AttentionKernels
	// Mixed is at how many times the bandwidth decodes are read in steps that
	// also have prompts: a kernel that serves both reads the keys once for every
	// head, not for every KV head, mostly from the device's cache. 0 means that
	// decodes take no longer than by themselves.
	Mixed float64
	// AllReduce and Gather are the times of an all-reduce, and of gathering or
	// scattering a tensor, by the number of GPUs in a node. They take the place
	// of the formulas of Efficiency.AllReduce, which gathers the logits too, and
	// of Efficiency.Exchange by GatherScatter, unless those have a Curve.
	AllReduce, Gather map[int]Curve
	// Elementwise is what an element-wise kernel takes at least; ≥ 0. A layer
	// has four: two norms, the rotary embedding and the activation. Of products
	// that do not compute in BF16 the conversion of activations was measured
	// too, which engines do in the kernel before: with them a layer has one.
	Elementwise time.Duration
}

// AttentionKernels are fits to attention of prompts and of decodes.
type AttentionKernels struct {
	Prefill *Calibration // of PrefillForm
	Decode  *Calibration // of DecodeForm
	// WindowPrefill and WindowDecode are of layers with a window; nil means the
	// same as without.
	WindowPrefill, WindowDecode *Calibration
}

// validate names the first fit that is of another form.
func (m *MeasuredKernels) validate(name string) error {
	if m == nil {
		return nil
	}
	if m.Elementwise < 0 {
		return badField(name+".Elementwise", m.Elementwise)
	}
	if !finite(m.Mixed) {
		return badField(name+".Mixed", m.Mixed)
	}
	// Forms differ in their parameters by precision, but not by GPU.
	check := func(field string, c *Calibration, form Form) error {
		switch {
		case c == nil:
			return nil
		case c.Form.Name != form.Name:
			return fmt.Errorf("costmodel: %s.%s is a fit of %q, want %q", name, field, c.Form.Name, form.Name)
		case len(c.Coefficients) != len(form.Parameters):
			return fmt.Errorf("costmodel: %s.%s has %d coefficients, want %d", name, field, len(c.Coefficients), len(form.Parameters))
		}
		if err := c.From.Validate(); err != nil {
			return fmt.Errorf("%w: %s.%s", err, name, field)
		}
		return nil
	}
	for _, kind := range []struct {
		name string
		fits map[Precision]*Calibration
		form func(GPU, Precision) Form
	}{{"Products", m.Products, MatrixForm}, {"Experts", m.Experts, ExpertsForm}} {
		byName := func(p, q Precision) int { return strings.Compare(p.String(), q.String()) }
		for _, p := range slices.SortedFunc(maps.Keys(kind.fits), byName) {
			if err := check(fmt.Sprintf("%s[%v]", kind.name, p), kind.fits[p], kind.form(GPU{}, p)); err != nil {
				return err
			}
		}
	}
	prefill, decode := PrefillForm(GPU{}, bf16), DecodeForm(GPU{}, bf16)
	for _, a := range []struct {
		name    string
		kernels AttentionKernels
	}{{"Attention", m.Attention}, {"NarrowAttention", m.NarrowAttention}} {
		for _, f := range []struct {
			name string
			c    *Calibration
			form Form
		}{
			{"Prefill", a.kernels.Prefill, prefill}, {"Decode", a.kernels.Decode, decode},
			{"WindowPrefill", a.kernels.WindowPrefill, prefill}, {"WindowDecode", a.kernels.WindowDecode, decode},
		} {
			if err := check(a.name+"."+f.name, f.c, f.form); err != nil {
				return err
			}
		}
	}
	return nil
}

// products returns the fit of products, nil if there is none.
func (m *MeasuredKernels) products(p Precision) *Calibration {
	if m == nil {
		return nil
	}
	return closest(m.Products, p)
}

func (m *MeasuredKernels) experts(p Precision) *Calibration {
	if m == nil {
		return nil
	}
	return closest(m.Experts, p)
}

// closest returns the fit of a precision or of one that computes alike.
func closest(fits map[Precision]*Calibration, p Precision) *Calibration {
	if c := fits[p]; c != nil {
		return c
	}
	for _, other := range precisions {
		if c := fits[other.precision]; c != nil && other.precision.Compute == p.Compute {
			return c
		}
	}
	return nil
}

// prefill returns the fit of prompts with a cache of so many bytes a value.
func (m *MeasuredKernels) prefill(cache float64, window bool) *Calibration {
	return m.attention(cache, window, func(a AttentionKernels) (full, windowed *Calibration) { return a.Prefill, a.WindowPrefill })
}

func (m *MeasuredKernels) decode(cache float64, window bool) *Calibration {
	return m.attention(cache, window, func(a AttentionKernels) (full, windowed *Calibration) { return a.Decode, a.WindowDecode })
}

// attention returns the first fit there is: narrow caches before others,
// windows before full attention.
func (m *MeasuredKernels) attention(cache float64, window bool, of func(AttentionKernels) (full, windowed *Calibration)) *Calibration {
	if m == nil {
		return nil
	}
	kinds := []AttentionKernels{m.Attention}
	if cache < bf16 {
		kinds = []AttentionKernels{m.NarrowAttention, m.Attention}
	}
	var other *Calibration
	for _, kind := range kinds {
		full, windowed := of(kind)
		if window && windowed != nil {
			return windowed
		}
		if other == nil {
			other = full
		}
	}
	return other
}

// reduce completes a collective on n GPUs that has no curve.
func (m *MeasuredKernels) reduce(c Collective, n int) Collective {
	if m != nil && c.Curve == nil {
		c.Curve = m.AllReduce[n]
	}
	return c
}

// exchange does the same for gathering, of which a Curve takes half.
func (m *MeasuredKernels) exchange(c Collective, n int) Collective {
	if m != nil && c.Curve == nil && m.Gather[n] != nil {
		c.Curve = twice{m.Gather[n]}
	}
	return c
}

// twice is an all-reduce whose halves take as long as the curve says.
type twice struct{ Curve }

func (t twice) Seconds(bytes float64) float64 { return 2 * t.Curve.Seconds(bytes) }

// ring is a fitted all-reduce or gathering that does not fall at the switchover.
type ring struct {
	formula ringFormula
	values  []float64
}

func (r ring) Seconds(bytes float64) float64 {
	t := r.formula.seconds(r.values, bytes)
	if bytes > r.formula.switchover {
		t = max(t, r.formula.seconds(r.values, r.formula.switchover))
	}
	return t
}

// perLayer returns the launches of element-wise kernels in a layer whose
// products have a precision.
func (m *MeasuredKernels) perLayer(p Precision) int {
	if p.Compute != BF16 && m.products(p) != nil {
		return 1
	}
	return 4
}

// value returns a coefficient by name, 0 if the form has none of that name.
func (c *Calibration) value(name string) float64 {
	for _, k := range c.Coefficients {
		if k.Name == name {
			return k.Value
		}
	}
	return 0
}

// kernel returns the shares of a fit, which say what an operator waits for.
func (c *Calibration) kernel() Kernel {
	return Kernel{Compute: min(c.value("compute"), 1), Memory: min(c.value("memory"), 1)}
}

// engineValues returns the coefficients as they hold in an engine: without the
// cache of the device, and with no share above that of the datasheet, which
// only a cache explains.
func (c *Calibration) engineValues() []float64 {
	cold := c.Cold()
	values := cold.Values()
	for i, k := range cold.Coefficients {
		if k.Name == paramCompute.Name || k.Name == paramMemory.Name {
			values[i] = min(values[i], 1)
		}
	}
	return values
}

// measuredProduct is one product of so many layers.
type measuredProduct struct {
	formula        matrixFormula
	values         []float64
	columns, inner float64
	launches       float64
}

func (s Setup) measuredProduct(l launch, c *Calibration) *measuredProduct {
	return &measuredProduct{
		formula: newMatrixFormula(s.GPU, l.Precision), values: c.engineValues(),
		columns: float64(l.Columns), inner: float64(l.Inner), launches: float64(l.count),
	}
}

func (p *measuredProduct) seconds(rows float64) float64 {
	return p.launches * p.formula.seconds(p.values, []float64{rows, p.columns, p.inner})
}

// measuredExperts are the routed experts of one layer.
type measuredExperts struct {
	formula expertsFormula
	values  []float64
	inner   float64
	sorted  bool // picks of other ranks do not come here
}

func (s Setup) measuredExperts(c *Calibration) *measuredExperts {
	e := s.experts()
	return &measuredExperts{
		formula: newExpertsFormula(s.GPU, e.Precision), values: c.engineValues(),
		inner: float64(e.Inner) / float64(e.Shards), sorted: s.Exchange == AllToAll && s.dp() > 1,
	}
}

// seconds takes the tiles of a rule, as engines do for shapes that nobody has
// tuned them for.
func (m *measuredExperts) seconds(e *RoutedExperts, n float64) float64 {
	rows := e.Picks(n)
	picks := n * float64(e.PerPosition)
	if m.sorted {
		picks = rows
	}
	return m.formula.seconds(m.values, []float64{rows, e.Distinct(n), picks, 3, float64(e.Hidden), m.inner, e.Tile(n), 0})
}
