package profile

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Diagnosis is the record that freezes one diagnosis on a page, before anybody
// optimises: what is wanted, what was measured and how, what is suspected, and
// what would end the work. Every field is needed.
type Diagnosis struct {
	// Objective is what the user sees: p95 client TTFT below 1.2 s and p95 gap
	// below 80 ms at the expected burst.
	Objective     string            `json:"objective"`
	Coordinates   Coordinates       `json:"coordinates"`
	Configuration map[string]string `json:"configuration"` // model, hardware, engine, limits
	Boundaries    string            `json:"trace_boundaries"`
	Workload      string            `json:"workload_distribution"`
	Suspect       string            `json:"suspected_phase"` // one of the seven, or residual
	Test          string            `json:"discriminating_test"`
	// Control is a case in which the suspect must not show, such as the same
	// request on an idle server. It is no claim about the service.
	Control string `json:"negative_control"`
	// Claim: under this workload and boundary this phase dominates, this
	// intervention should move it, and this trace can prove whether it did.
	Claim    string   `json:"claim"`
	StopRule StopRule `json:"stop_rule"`
}

// StopRule says when a phase is worth optimising and when to stop.
type StopRule struct {
	Contribution string `json:"contribution"` // what it must contribute to the target percentile
	Movement     string `json:"movement"`     // what the change must move, under representative load
	Bound        string `json:"bound"`        // what quality, cost or fairness may lose
}

// fields are the texts of the record with their names in JSON, in order.
func (d *Diagnosis) fields() []field {
	c, s := &d.Coordinates, &d.StopRule
	return []field{{"objective", &d.Objective},
		{"coordinates.boundary", &c.Boundary}, {"coordinates.metric", &c.Metric}, {"coordinates.percentile", &c.Percentile},
		{"coordinates.arrivals", &c.Arrivals}, {"coordinates.shape", &c.Shape},
		{"trace_boundaries", &d.Boundaries}, {"workload_distribution", &d.Workload}, {"suspected_phase", &d.Suspect},
		{"discriminating_test", &d.Test}, {"negative_control", &d.Control}, {"claim", &d.Claim},
		{"stop_rule.contribution", &s.Contribution}, {"stop_rule.movement", &s.Movement}, {"stop_rule.bound", &s.Bound}}
}

type field struct {
	name string
	text *string
}

// Validate reports the fields that are missing, or a suspect that is no phase.
func (d *Diagnosis) Validate() error {
	var missing []string
	for _, f := range d.fields() {
		if strings.TrimSpace(*f.text) == "" {
			missing = append(missing, f.name)
		}
	}
	if len(d.Configuration) == 0 {
		missing = append(missing, "configuration")
	}
	if missing != nil {
		return fmt.Errorf("profile: diagnosis: missing fields: %s", strings.Join(missing, ", "))
	}
	if names := phaseNames(); !slices.Contains(names, d.Suspect) {
		return fmt.Errorf("profile: diagnosis: suspected_phase is %q, want one of %s", d.Suspect, strings.Join(names, ", "))
	}
	return nil
}

// Complete fills the fields of d that are empty and that the trace answers:
// coordinates, boundaries, distribution, the dominant TTFT phase as suspect,
// its test, and the claim. What only people can say stays empty: objective,
// configuration, control, stop rule. name is what the claim calls the trace.
func (r *Report) Complete(d Diagnosis, name string) Diagnosis {
	top := &r.DominantTTFT
	if d.Suspect != "" && d.Suspect != top.Phase && d.Suspect == r.DominantE2E.Phase {
		top = &r.DominantE2E
	}
	a := &r.Arrivals
	measured := Diagnosis{Coordinates: r.Coordinates,
		Boundaries: r.boundaries(),
		Workload: fmt.Sprintf("%s over %s s, %s/s, gap CV %s; %s", plural(r.Requests, "request"),
			a.SpanS.digits(2), a.RatePerS.digits(2), a.GapCV.digits(2), r.Coordinates.Shape),
		Suspect: top.Phase}
	if d.Suspect == "" || d.Suspect == top.Phase {
		of := "TTFT"
		if top == &r.DominantE2E {
			of = "E2E"
		}
		measured.Test = top.NextTest
		measured.Claim = fmt.Sprintf("Under %s (%s) and at the client's boundary, %s dominates %s: %v ms in the mean, %s of it. "+
			"If the test bears it out, this should move it: %s. %s, replayed, can prove whether it did.",
			r.Coordinates.Arrivals, r.Coordinates.Shape, top.Phase, of, top.MeanMs, shareText(top.Share), top.Change, name)
	}
	ours := measured.fields()
	for i, f := range d.fields() {
		if strings.TrimSpace(*f.text) == "" {
			*f.text = *ours[i].text
		}
	}
	return d
}

// boundaries says which instants the trace has.
func (r *Report) boundaries() string {
	text := "client_send, gateway_arrival, queue_enter, prefill_start, prefill_end, first_token_server, first_token_client, last_token_client"
	if r.Partial > 0 {
		text += fmt.Sprintf("; %d of %d requests lack some", r.Partial, r.Requests)
	}
	if r.ClockMs > 0 {
		text += fmt.Sprintf("; clocks within %v ms", r.ClockMs)
	}
	return text
}

// WriteMarkdown writes the record as one page. A record that is not valid is
// an error, and nothing is written.
func (d *Diagnosis) WriteMarkdown(w io.Writer) error {
	if err := d.Validate(); err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString("# Diagnosis record\n")
	section := func(title string) { fmt.Fprintf(&b, "\n## %s\n\n", title) }
	item := func(name, text string) { wrap(&b, "- "+name+": ", markdown(text)) }
	section("Objective")
	wrap(&b, "", markdown(d.Objective))
	section("Coordinates")
	c := &d.Coordinates
	item("boundary", c.Boundary)
	item("metric", c.Metric)
	item("percentile", c.Percentile)
	item("arrivals", c.Arrivals)
	item("shape", c.Shape)
	section("Configuration")
	for _, name := range sortedKeys(d.Configuration) {
		item(markdown(name), d.Configuration[name])
	}
	section("Trace")
	item("boundaries", d.Boundaries)
	item("workload", d.Workload)
	section("Suspect")
	item("phase", d.Suspect)
	item("discriminating test", d.Test)
	item("negative control", d.Control)
	section("Claim")
	wrap(&b, "", markdown(d.Claim))
	section("Stop rule")
	item("contribution", d.StopRule.Contribution)
	item("movement", d.StopRule.Movement)
	item("bound", d.StopRule.Bound)
	_, err := io.WriteString(w, b.String())
	return err
}

// markdown keeps text from being read as markup, wherever its lines break.
func markdown(text string) string {
	words := strings.Fields(text)
	for i, word := range words {
		word = strings.NewReplacer(`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "<", `\<`, "[", `\[`, "|", `\|`, "#", `\#`).Replace(word)
		if strings.ContainsRune("-+=>~", rune(word[0])) {
			word = `\` + word
		}
		if digits := strings.TrimLeft(word, "0123456789"); digits != word && (digits == "." || digits == ")") {
			word = strings.TrimSuffix(word, digits) + `\` + digits
		}
		words[i] = word
	}
	return strings.Join(words, " ")
}

// ReadDiagnosis reads the fields that a JSON object has: the record may still
// be incomplete. The error names file, line and field.
func ReadDiagnosis(r io.Reader, name string) (Diagnosis, error) {
	doc, err := newDocument(r, name)
	if err != nil {
		return Diagnosis{}, err
	}
	if !doc.more() {
		return Diagnosis{}, fmt.Errorf("%s: the file is empty", name)
	}
	var d Diagnosis
	if err := doc.diagnosis(&d); err != nil {
		return Diagnosis{}, err
	}
	if doc.more() {
		return Diagnosis{}, doc.errorf("more behind the object")
	}
	return d, nil
}

func (d *document) diagnosis(to *Diagnosis) error {
	var known []string
	texts := map[string]*string{}
	for _, f := range to.fields() {
		texts[f.name] = f.text
		if top, _, nested := strings.Cut(f.name, "."); !nested || !slices.Contains(known, top) {
			known = append(known, top)
		}
	}
	known = append(known, "configuration")
	return d.object("the file", func(name string) error {
		switch name {
		case "coordinates", "stop_rule":
			return d.object(name, func(inner string) error {
				if text, ok := texts[name+"."+inner]; ok {
					return d.text(name+"."+inner, text)
				}
				return d.unknown(name+"."+inner, nestedIn(texts, name)...)
			})
		case "configuration":
			to.Configuration = map[string]string{}
			return d.object(name, func(setting string) error {
				var value string
				err := d.text(name+"."+setting, &value)
				to.Configuration[setting] = value
				return err
			})
		case "suspected_phase":
			return d.phase(name, &to.Suspect)
		}
		if text, ok := texts[name]; ok && !strings.Contains(name, ".") {
			return d.text(name, text)
		}
		return d.unknown(name, known...)
	})
}

// nestedIn returns the names below an object, without it.
func nestedIn(texts map[string]*string, object string) (names []string) {
	for _, name := range sortedKeys(texts) {
		if _, inner, ok := strings.Cut(name, object+"."); ok {
			names = append(names, inner)
		}
	}
	return names
}
