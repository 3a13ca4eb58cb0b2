package main

import (
	"fmt"
	"io"
	"strings"

	"servesim/examples/internal/terminal"
	"servesim/sim/profile"
)

// Manifest says what was made and what is true of it.
type Manifest struct {
	Version   int     `json:"version"`
	Seed      uint64  `json:"seed"`
	Scenarios []Entry `json:"scenarios"`
}

// Entry is one scenario.
type Entry struct {
	Name  string `json:"name"`
	About string `json:"about"`
	Valid bool   `json:"valid"`
	// Accepted is true where the reference profiler accepts what is not valid.
	Accepted bool          `json:"accepted_by_reference"`
	Requests int           `json:"requests"` // that completed
	Label    profile.Truth `json:"label"`
	Files    *Files        `json:"files,omitempty"`
}

// Files are the paths below the directory of the manifest.
type Files struct {
	Trace    string `json:"trace"`
	Labels   string `json:"labels"`
	Labelled string `json:"labelled"`
	Perfetto string `json:"perfetto"`
	OTLP     string `json:"otlp,omitempty"`
}

func (m *Manifest) truths() []profile.Truth {
	truths := make([]profile.Truth, len(m.Scenarios))
	for i, e := range m.Scenarios {
		truths[i] = e.Label
	}
	return truths
}

// writeText prints the truth in at most 80 columns.
func (m *Manifest) writeText(w io.Writer, out string) {
	fmt.Fprintf(w, "%-17s%-17s%-17s%-20s%9s\n", "SCENARIO", "TTFT PHASE", "E2E PHASE", "CAUSE", "REQUESTS")
	for _, e := range m.Scenarios {
		ttft, e2e := e.Label.TTFTPhase, e.Label.E2EPhase
		if !e.Valid {
			ttft, e2e = "invalid", "invalid"
		}
		cause := "none"
		if len(e.Label.Causes) > 0 {
			cause = strings.Join(e.Label.Causes, ", ")
		}
		fmt.Fprintf(w, "%-17s%-17s%-17s%-20s%4d/%4d\n", e.Name, ttft, e2e, cause, len(e.Label.Affected), e.Requests)
	}
	fmt.Fprintln(w)
	terminal.Wrap(w, "", "Phases are those with the largest means over the requests. Requests are those that are affected, of all that complete.")
	if out != "" {
		terminal.Wrap(w, "", fmt.Sprintf("The traces are below %s; manifest.json says what is true of them.", out))
	}
}
