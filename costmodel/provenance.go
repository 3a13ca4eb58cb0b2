package costmodel

import "fmt"

// Provenance is the hardware set-up that measurements belong to. A cost curve
// says nothing about another one, so whatever is measured or fitted carries
// it, and nothing measured is built without it: every field must be given.
type Provenance struct {
	Platform string `json:"platform"` // the device, such as "H100 SXM"
	Formats  string `json:"formats"`  // of weights, activations and KV: "BF16"
	Kernels  string `json:"kernels"`  // who computes: "vLLM 0.24"
	Layout   string `json:"layout"`   // parallelism: "one GPU", "TP 2"
	// Boundary says what the clock covers: "one kernel in a CUDA graph",
	// "an engine's step, host included".
	Boundary string `json:"boundary"`
	Source   string `json:"source"` // file or publication
}

// Validate names the first field that is missing.
func (p Provenance) Validate() error {
	for _, f := range []struct{ name, value string }{
		{"Platform", p.Platform}, {"Formats", p.Formats}, {"Kernels", p.Kernels},
		{"Layout", p.Layout}, {"Boundary", p.Boundary}, {"Source", p.Source},
	} {
		if f.value == "" {
			return fmt.Errorf("costmodel: Provenance.%s is missing: a measurement belongs to a set-up", f.name)
		}
	}
	return nil
}

// String returns the fields on one line.
func (p Provenance) String() string {
	return fmt.Sprintf("%s, %s, %s, %s, %s (%s)", p.Platform, p.Formats, p.Kernels, p.Layout, p.Boundary, p.Source)
}
