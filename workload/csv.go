package workload

import (
	"bytes"
	"errors"
)

var (
	errQuote = errors.New("a quoted field does not end with a quote and a comma")
	errCount = errors.New("not a whole number from 0 to 2147483647")
)

// splitCSV appends the fields of a line to dst. They point into the line. A
// field may stand in quotes, and then hold commas; quotes inside quotes and
// fields over several lines are errors.
func splitCSV(dst [][]byte, line []byte) ([][]byte, error) {
	for {
		if len(line) > 0 && line[0] == '"' {
			end := bytes.IndexByte(line[1:], '"') + 1
			if end == 0 || end+1 < len(line) && line[end+1] != ',' {
				return nil, errQuote
			}
			dst = append(dst, line[1:end])
			if end+1 == len(line) {
				return dst, nil
			}
			line = line[end+2:]
			continue
		}
		end := bytes.IndexByte(line, ',')
		if end < 0 {
			return append(dst, line), nil
		}
		dst = append(dst, line[:end])
		line = line[end+1:]
	}
}

// parseCount parses a number of tokens or images.
func parseCount(b []byte) (int, error) {
	b = bytes.TrimSpace(b)
	if len(b) == 0 || len(b) > len("2147483647") {
		return 0, errCount
	}
	n := digits(b)
	if n < 0 || n > maxTokens {
		return 0, errCount
	}
	return n, nil
}
