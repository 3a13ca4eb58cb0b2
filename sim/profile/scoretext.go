package profile

import (
	"fmt"
	"io"
	"strings"
)

// WriteText writes the score in at most 80 columns, unless names are long.
func (s *Score) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %d answered\n", plural(s.Scenarios, "scenario"), s.Answered)
	fmt.Fprintf(&b, "dominant phase of TTFT right in %d of %d, of E2E in %d of %d\n", s.TTFTPhase.Right, s.TTFTPhase.Of, s.E2EPhase.Right, s.E2EPhase.Of)
	fmt.Fprintf(&b, "\n%-32s%8s%8s%8s%12s%12s\n", "", "hit", "false", "missed", "precision", "recall")
	row := func(name string, h *Hits) {
		fmt.Fprintf(&b, "%s%8d%8d%8d%12s%12s\n", pad(oneLine(name), 32), h.Hit, h.False, h.Missed, h.Precision.digits(2), h.Recall.digits(2))
	}
	for i := range s.Causes {
		row(s.Causes[i].Cause, &s.Causes[i].Hits)
	}
	row("all causes", &s.AllCauses)
	row("broken traces refused", &s.Refusal)
	row("affected requests", &s.Affected)
	for _, part := range []struct {
		name string
		list []Miss
	}{{"missed", s.Missed}, {"wrong", s.Wrong}} {
		for i, m := range part.list {
			if i == 0 {
				b.WriteByte('\n')
			}
			text := fmt.Sprintf("%s: %s", oneLine(m.Scenario), m.What)
			if m.Want != "" {
				text += fmt.Sprintf(", want %s", oneLine(m.Want))
			}
			if m.Got != "" {
				text += fmt.Sprintf(", got %s", oneLine(m.Got))
			}
			wrap(&b, fmt.Sprintf("%-8s", part.name), text)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
