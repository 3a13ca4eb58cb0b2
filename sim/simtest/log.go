package simtest

import (
	"fmt"
	"strconv"
	"strings"

	"servesim/sim"
)

// Log is an observer that keeps every event as the line of
// [sim.Event.String]. Two runs with the same lines are the same run. The zero
// value is ready to use.
type Log struct {
	Lines []string
	// TokenTimes adds a line with the instants of a request's tokens, in ns,
	// behind its end. It needs sim.Config.TokenTimes.
	TokenTimes bool

	times []sim.Time
}

// Observe implements sim.Observer.
func (l *Log) Observe(e sim.Event) {
	l.Lines = append(l.Lines, e.String())
	if !l.TokenTimes {
		return
	}
	switch e.Kind {
	case sim.Finish, sim.Reject, sim.Abort:
		l.times = e.TokenTimes(l.times[:0])
		line := []byte("tokens")
		for _, t := range l.times {
			line = strconv.AppendInt(append(line, ' '), int64(t), 10)
		}
		l.Lines = append(l.Lines, string(line))
	}
}

// String returns the lines, each with its end, as a golden file holds them.
func (l *Log) String() string {
	if len(l.Lines) == 0 {
		return ""
	}
	return strings.Join(l.Lines, "\n") + "\n"
}

// diffContext is how many equal lines Diff shows before the first difference.
const diffContext = 4

// Diff returns the first difference of two logs, with the lines around it, or
// "" if they are equal. Lines of want begin with -, those of got with +.
func Diff(want, got []string) string {
	i := 0
	for i < len(want) && i < len(got) && want[i] == got[i] {
		i++
	}
	if i == len(want) && i == len(got) {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "logs of %d (-want) and %d (+got) lines differ at line %d:\n", len(want), len(got), i+1)
	for _, line := range want[max(0, i-diffContext):i] {
		fmt.Fprintf(&b, "  %s\n", line)
	}
	for _, side := range []struct {
		sign string
		log  []string
	}{{"-", want}, {"+", got}} {
		for _, line := range side.log[i:min(len(side.log), i+2)] {
			fmt.Fprintf(&b, "%s %s\n", side.sign, line)
		}
		if i == len(side.log) {
			fmt.Fprintf(&b, "%s (end of log)\n", side.sign)
		}
	}
	return b.String()
}
