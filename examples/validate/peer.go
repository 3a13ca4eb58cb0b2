package main

import (
	"bufio"
	"errors"
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
	Error  float64 `json:"error"`  // peer/real - 1
}

// readPeer reads a table of names and figures. A folder without one has no
// rows.
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
		if err1 != nil || err2 != nil || real == 0 {
			continue // a heading
		}
		rows = append(rows, peerRow{strings.Join(fields[:n-3], " "), real, peer, peer/real - 1})
	}
	return rows, lines.Err()
}
