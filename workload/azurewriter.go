package workload

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"time"

	"servesim/sim"
)

// AzureWriter writes requests as a recording that [AzureCSV] reads.
type AzureWriter struct {
	W io.Writer
	// Origin is the instant of arrival 0. The zero time means the start of
	// 1970, UTC.
	Origin time.Time
	// Lossy leaves out what the format has no place for, such as prefixes. By
	// default a request that has it is an error.
	Lossy bool
}

// azureLayout is the notation of 2023, or with more digits if it must be.
const azureLayout = "2006-01-02 15:04:05.0000000"

// Write writes the requests up to the first error. Arrivals must not go back.
func (w AzureWriter) Write(requests iter.Seq2[sim.Request, error]) error {
	origin := w.Origin.UTC()
	if w.Origin.IsZero() {
		origin = time.Unix(0, 0).UTC()
	}
	out := bufio.NewWriter(w.W)
	out.WriteString("TIMESTAMP,ContextTokens,GeneratedTokens\n")
	line := make([]byte, 0, 64)
	err := eachInOrder(requests, func(q *sim.Request) error {
		if err := lost(q, "an Azure trace", false); err != nil && !w.Lossy {
			return err
		}
		at := origin.Add(time.Duration(q.Arrival))
		if y := at.Year(); y < minYear || y > maxYear {
			return fmt.Errorf("workload: request %d at %v after %v: %w", q.ID, q.Arrival, origin, errTimestampRange)
		}
		layout := azureLayout
		if at.Nanosecond()%100 != 0 {
			layout += "00"
		}
		line = at.AppendFormat(line[:0], layout)
		line = append(line, ',')
		line = strconv.AppendInt(line, int64(q.Prompt), 10)
		line = append(line, ',')
		line = strconv.AppendInt(line, int64(q.Output), 10)
		line = append(line, '\n')
		_, err := out.Write(line)
		return err
	})
	return errors.Join(err, out.Flush())
}
