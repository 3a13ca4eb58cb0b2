package workload_test

import (
	"archive/tar"
	"compress/gzip"
	"encoding/csv"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"servesim/workload"
)

// serveGenClients reads the windows of all clients of an archive.
func serveGenClients(t *testing.T, path string) (clients []workload.ServeGenWindows) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	archive := tar.NewReader(z)
	for {
		h, err := archive.Next()
		if err == io.EOF {
			return clients
		}
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(h.Name, ".csv") {
			continue
		}
		rows, err := csv.NewReader(archive).ReadAll()
		if err != nil {
			t.Fatalf("%s: %v", h.Name, err)
		}
		var c workload.ServeGenWindows
		for _, row := range rows {
			number := func(i int) float64 {
				v, err := strconv.ParseFloat(row[i], 64)
				if err != nil && row[i] != "" {
					t.Fatalf("%s: %v", h.Name, err)
				}
				return v
			}
			c.Windows = append(c.Windows, workload.ServeGenWindow{
				Start: time.Duration(number(0)) * time.Second, Rate: number(1), Pattern: workload.ServeGenGapLaw(row[3]), Shape: number(4),
			})
		}
		clients = append(clients, c)
	}
}

// Recorded clients, window by window: bursty ones, whose sum has gaps that
// look exponential and an index of dispersion that does not. The figures wanted
// are medians of twelve windows, and as uncertain.
func TestServeGenRecordedClients(t *testing.T) {
	clients := serveGenClients(t, shared(t, "recordings/servegen_deepseek-r1_trace_csvs.tar.gz"))
	if len(clients) != 73 {
		t.Fatalf("%d clients, want 73", len(clients))
	}
	var cv, idc1, idc10 []float64
	for window := 0; window < len(clients[0].Windows); window += 2 {
		var active workload.Superpose
		total := 0.0
		for _, c := range clients {
			w := c.Windows[window]
			w.Start = 0
			if w.Pattern != workload.ServeGenIdle {
				total += w.Rate
				active = append(active, workload.ServeGenWindows{Windows: []workload.ServeGenWindow{w}})
			}
		}
		d := described(t, 1, active)
		near(t, "rate of a window", float64(d.Requests)/600, total, 0.01)
		cv, idc1, idc10 = append(cv, float64(d.GapCV)), append(idc1, float64(d.IDC1)), append(idc10, float64(d.IDC10))
	}
	median := func(x []float64) float64 {
		slices.Sort(x)
		return x[len(x)/2]
	}
	t.Logf("medians of %d windows: gap CV %.3f, IDC %.2f at 1 s, %.2f at 10 s", len(cv), median(cv), median(idc1), median(idc10))
	near(t, "gap CV", median(cv), 1.09, 0.1)
	near(t, "IDC(1 s)", median(idc1), 1.6, 0.2)
	near(t, "IDC(10 s)", median(idc10), 2.4, 0.3)
}
