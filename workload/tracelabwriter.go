package workload

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
	"time"

	"servesim/sim"
)

// TraceLabWriter writes sessions as a recording that [TraceLab] reads.
type TraceLabWriter struct {
	W io.Writer
	// Origin is the arrival_time that is written for arrival 0, at least 0.
	Origin time.Duration
}

// Write writes the sessions up to the first error. Arrivals must not go back.
func (w TraceLabWriter) Write(sessions iter.Seq2[TraceLabSession, error]) error {
	if w.Origin < 0 {
		return fmt.Errorf("workload: TraceLabWriter.Origin is %v, want at least 0", w.Origin)
	}
	out := bufio.NewWriter(w.W)
	out.WriteString("session_id,arrival_time,round_idx,prefix_len,input_len,output_len,tool_wait_after_ms\n")
	last := sim.Time(0)
	var line []byte
	write := func(s TraceLabSession) error {
		if s.Arrival < last {
			return fmt.Errorf("workload: session %q arrives at %v, before %v", s.ID, s.Arrival, last)
		}
		last = s.Arrival
		arrival, err := sum(w.Origin, s.Arrival)
		if err != nil {
			return fmt.Errorf("workload: session %q %w", s.ID, err)
		}
		for i, r := range s.Rounds {
			id, err := quoteField(s.ID)
			if err != nil {
				return fmt.Errorf("workload: session %q: %w", s.ID, err)
			}
			line = append(append(line[:0], id...), ',')
			line = append(appendMillis(line, arrival), ',')
			for _, v := range []int{i, r.Prefix, r.Input, r.Output} {
				line = append(strconv.AppendInt(line, int64(v), 10), ',')
			}
			line = append(appendMillis(line, int64(r.Wait)), '\n')
			if _, err := out.Write(line); err != nil {
				return err
			}
		}
		return nil
	}
	for s, err := range sessions {
		if err == nil {
			err = write(s)
		}
		if err != nil {
			return errors.Join(err, out.Flush())
		}
	}
	return out.Flush()
}

// quoteField returns a CSV field as splitCSV reads it.
func quoteField(s string) (string, error) {
	switch {
	case s == "" || strings.TrimSpace(s) != s:
		return "", errors.New("empty, or with blanks at an end, which readers do not see")
	case strings.ContainsAny(s, "\"\r\n"):
		return "", errors.New("a field of a CSV file has no quotes and no line ends")
	case strings.Contains(s, ","):
		return `"` + s + `"`, nil
	}
	return s, nil
}
