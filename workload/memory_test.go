package workload_test

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"iter"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"servesim/sim"
	"servesim/workload"
)

// synthetic is a file of so many bytes that is made as it is read.
func synthetic(bytes int, zipped bool, header string, row func(b []byte, i int) []byte) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) {
		r, w := io.Pipe()
		go func() {
			out := bufio.NewWriterSize(w, 1<<16)
			var z *gzip.Writer
			var to io.Writer = out
			if zipped {
				z, _ = gzip.NewWriterLevel(out, gzip.BestSpeed) // the level is valid
				to = z
			}
			_, err := io.WriteString(to, header)
			b := make([]byte, 0, 1024)
			for i, n := 0, len(header); n < bytes && err == nil; i++ {
				b = row(b[:0], i)
				n += len(b)
				_, err = to.Write(b)
			}
			if z != nil && err == nil {
				err = z.Close()
			}
			if err == nil {
				err = out.Flush()
			}
			w.CloseWithError(err)
		}()
		return r, nil
	}
}

func azureRow(b []byte, i int) []byte {
	b = time.Date(2024, 5, 12, 0, 0, 0, 0, time.UTC).Add(time.Duration(i)*25*time.Millisecond).AppendFormat(b, "2006-01-02 15:04:05.000000")
	return fmt.Appendf(b, "+00:00,%d,%d\n", 1+i%7000, 1+i%500)
}

func mooncakeLine(b []byte, i int) []byte {
	b = fmt.Appendf(b, `{"timestamp": %d, "input_length": %d, "output_length": %d, "hash_ids": [0`, i*300, 32*512, 1+i%500)
	for j := 1; j < 32; j++ {
		b = fmt.Appendf(b, ", %d", 31*i+j)
	}
	return append(b, "]}\n"...)
}

// Files of any size are read in the same memory: a gigabyte with
// SERVESIM_LONG=1, else a megabyte.
func TestReadersStream(t *testing.T) {
	size := 1 << 20
	if os.Getenv("SERVESIM_LONG") == "1" {
		size = 1 << 30
	}
	const azureHeader = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
	burstRow := func(b []byte, i int) []byte {
		return fmt.Appendf(b, "%d,1722ac82-0a46-4bf0-aa08-89794e7a2b3f,3,GPT-4,%d,%d,0,API log\n", i/4, 1+i%3000, i%400)
	}
	labRow := func(b []byte, i int) []byte {
		return fmt.Appendf(b, "%d,%d,%d,%d,%d,%d,100\n", i/8, i/8*50, i%8, i%8*300, 200, 100)
	}
	ragRow := func(b []byte, i int) []byte {
		return fmt.Appendf(b, `{"timestamp": "%d", "input_length": 30, "output_length": 5, "hash_ids": {"sys_prompt": [1, 2], "passages_ids": [7, 7, 7]}, "session_id": "%d"}`+"\n", i, i)
	}
	for _, c := range []struct {
		name     string // of the file, which is of size unless it says so
		requests iter.Seq2[sim.Request, error]
	}{
		{"azure", workload.AzureCSV{Path: "trace", Open: synthetic(size, false, azureHeader, azureRow)}.Requests()},
		{"azure, gzip", workload.AzureCSV{Path: "trace", Open: synthetic(size, true, azureHeader, azureRow)}.Requests()},
		{"burstgpt", workload.BurstGPT{Path: "trace", Spread: time.Second, Open: synthetic(size, false, strings.SplitAfter(burst8, "\n")[0], burstRow)}.Requests()},
		{"mooncake", workload.Mooncake{Path: "trace", Open: synthetic(size, false, "", mooncakeLine)}.Requests()},
		{"ragpulse", workload.RAGPulse{Path: "trace", Open: synthetic(size, false, "", ragRow), Side: ragPulse("", ragTables).Side}.Requests()},
		{"tracelab, a sixteenth", workload.TraceLab{
			Path: "trace", Open: synthetic(size/16, false, labHeader, labRow), OpenLoop: func(workload.TraceLabRound) time.Duration { return time.Second },
		}.Requests()},
	} {
		t.Run(c.name, func(t *testing.T) {
			peak, rows := heapPeak(t, c.requests)
			t.Logf("%d requests of a file of %d MB: %.1f MB of heap", rows, size>>20, peak)
			limit := 4.0
			if strings.HasPrefix(c.name, "tracelab") {
				limit += 100 * float64(rows) / 8 / 1e6 // the ids of sessions are held, eight rows each
			}
			if peak > limit {
				t.Errorf("the heap grew to %.1f MB over %d requests, want at most %.1f", peak, rows, limit)
			}
		})
	}
}

// heapPeak returns the most live heap, MB, over what there was, and the number
// of requests.
func heapPeak(t *testing.T, requests iter.Seq2[sim.Request, error]) (peak float64, n int) {
	t.Helper()
	live := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := live()
	for _, err := range requests {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n&(n-1) == 0 || n%(1<<20) == 0 {
			peak = max(peak, float64(int64(live()-before))/1e6)
		}
	}
	return peak, n
}
