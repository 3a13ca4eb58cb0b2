package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// peerRow is a line of another simulator's comparison: the engine, the
// simulator and their difference.
type peerRow struct {
	Metric string  `json:"metric"` // "TTFT Mean"
	Real   float64 `json:"real"`   // ms
	Peer   float64 `json:"peer"`   // ms
	Error  float64 `json:"error"`  // peer/real - 1, as the file says
}

// readPeer reads a table of names, two figures in ms and their difference in per
// cent. A folder without one has no rows.
func readPeer(path string) ([]peerRow, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var rows []peerRow
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 {
			continue
		}
		n := len(fields)
		real, err1 := strconv.ParseFloat(fields[n-3], 64)
		peer, err2 := strconv.ParseFloat(fields[n-2], 64)
		off, err3 := strconv.ParseFloat(strings.TrimSuffix(fields[n-1], "%"), 64)
		if err1 != nil || err2 != nil || err3 != nil {
			continue // a heading
		}
		rows = append(rows, peerRow{strings.Join(fields[:n-3], " "), real, peer, off / 100})
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("%s: no line of a name, two figures and their difference", path)
	}
	return rows, nil
}
