package costmodel_test

import (
	"compress/gzip"
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"servesim/costmodel"
)

func TestLookupLink(t *testing.T) {
	l, err := costmodel.LookupLink("infiniband-400g")
	if err != nil || l.Name != "InfiniBand-400G" || l.Bandwidth != 50e9 || !near(l.Rate(), 36e9) {
		t.Errorf("%+v, error %v", l, err)
	}
	_, err = costmodel.LookupLink("token ring")
	wantError(t, err, `costmodel: unknown link "token ring"; known are Ethernet-25G, Ethernet-100G, Ethernet-200G, PCIe4-x16, InfiniBand-400G, PCIe5-x16, NVLink3, NVLink4, NVLink5`)
	all := costmodel.Links()
	for i, l := range all {
		if err := l.Validate(); err != nil {
			t.Error(err)
		}
		if i > 0 && l.Rate() <= all[i-1].Rate() {
			t.Errorf("%s is not faster than %s", l.Name, all[i-1].Name)
		}
	}
	all[0].Bandwidth = 1
	if costmodel.Links()[0].Bandwidth != 3.125e9 { // 25 Gb/s
		t.Error("the catalogue changes with what Links returned")
	}
	if pcie, _ := costmodel.LookupLink("PCIe5-x16"); math.Round(pcie.Bandwidth/1e7) != 6302 { // 32 GT/s, 16 lanes, 128b/130b
		t.Errorf("PCIe5 has %v B/s", pcie.Bandwidth)
	}
}

func TestLinkErrors(t *testing.T) {
	good := costmodel.Link{Bandwidth: 1e9}
	if good.Rate() != 1e9 || good.Validate() != nil {
		t.Errorf("rate %v, error %v", good.Rate(), good.Validate())
	}
	for want, change := range map[string]func(l *costmodel.Link){
		"costmodel: Link.Bandwidth is 0":                   func(l *costmodel.Link) { l.Bandwidth = 0 },
		"costmodel: Link.Bandwidth is +Inf":                func(l *costmodel.Link) { l.Bandwidth = math.Inf(1) },
		"costmodel: Link.Efficiency is 1.5, not in [0, 1]": func(l *costmodel.Link) { l.Efficiency = 1.5 },
		"costmodel: Link.Efficiency is NaN, not in [0, 1]": func(l *costmodel.Link) { l.Efficiency = math.NaN() },
		"costmodel: Link.Latency is -1ns":                  func(l *costmodel.Link) { l.Latency = -1 },
	} {
		l := good
		change(&l)
		wantError(t, l.Validate(), want)
		_, err := setup(t, "Llama-3.1-8B", "H100").KVLink(l)
		wantError(t, err, want)
	}
	s := setup(t, "Llama-3.1-8B", "H100")
	s.TensorParallel = 3
	if _, err := s.KVLink(good); err == nil {
		t.Error("no error for a set-up that cannot be")
	}
}

func TestKVLink(t *testing.T) {
	ib, err := costmodel.LookupLink("InfiniBand-400G")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		model      string
		tp         int
		tokenBytes int64
		bandwidth  float64
	}{
		{"Llama-3.1-8B", 1, 131_072, 36e9},
		{"Llama-3.1-8B", 16, 131_072, 576e9}, // 8 KV heads, each on two GPUs
		{"Llama-2-7B", 2, 524_288, 72e9},
	} {
		s := setup(t, c.model, "H100")
		s.TensorParallel = c.tp
		got, err := s.KVLink(ib)
		if err != nil || got.TokenBytes != c.tokenBytes || !near(got.Bandwidth, c.bandwidth) || got.Latency != 19*time.Microsecond || got.Layers != 0 || got.Fabric != 0 {
			t.Errorf("%s on %d: %+v, error %v", c.model, c.tp, got, err)
		}
	}
}

// The entries that are fits predict what was measured, from 1 MB on.
func TestLinksAgainstMeasurements(t *testing.T) {
	for _, c := range []struct {
		link, file string
		perNode    string // of two GPUs
		mean       float64
	}{
		{"NVLink3", "measured/links/vidur_a100_dgx_send_recv.csv.gz", "2", 0.11},
		{"NVLink4", "measured/links/vidur_h100_dgx_send_recv.csv.gz", "2", 0.04},
		{"InfiniBand-400G", "measured/links/vidur_h100_dgx_send_recv.csv.gz", "1", 0.05},
	} {
		l, err := costmodel.LookupLink(c.link)
		if err != nil {
			t.Fatal(err)
		}
		points := sendReceive(t, shared(t, c.file), c.perNode)
		sum := 0.0
		for _, p := range points {
			sum += math.Abs((l.Latency.Seconds()+p.bytes/l.Rate())/p.seconds - 1)
		}
		mean := sum / float64(len(points))
		t.Logf("%s: mean error %.1f %% at %d points", c.link, 100*mean, len(points))
		if len(points) < 100 || !(mean <= c.mean) {
			t.Errorf("%s: mean error %.3f at %d points, want at most %.2f", c.link, mean, len(points), c.mean)
		}
	}
}

type transfer struct{ bytes, seconds float64 }

// sendReceive reads the medians of transfers between two GPUs, from 1 MB on.
func sendReceive(t *testing.T, path, perNode string) (points []transfer) {
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
	rows, err := csv.NewReader(z).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	column := func(name string) int { return slices.Index(rows[0], name) }
	size, median, node := column("size"), column("time_stats.send_recv.median"), column("devices_per_node")
	for _, r := range rows[1:] {
		bytes, err1 := strconv.ParseFloat(r[size], 64)
		ms, err2 := strconv.ParseFloat(r[median], 64)
		if err1 != nil || err2 != nil {
			t.Fatalf("%s: row %v", path, r)
		}
		if r[node] == perNode && bytes >= 1e6 {
			points = append(points, transfer{bytes, ms / 1e3})
		}
	}
	return points
}

func ExampleSetup_KVLink() {
	setup, err := costmodel.NewSetup("Llama-3.1-8B", "H100")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, l := range costmodel.Links() {
		link, err := setup.KVLink(l)
		if err != nil {
			fmt.Println(err)
			return
		}
		prompt := 4000 * float64(link.TokenBytes)
		fmt.Printf("%-15s %5.1f GB/s, %5.1f ms for a prompt of 4000 tokens\n", l.Name, link.Bandwidth/1e9, 1e3*prompt/link.Bandwidth)
	}
	// Output:
	// Ethernet-25G      2.2 GB/s, 236.3 ms for a prompt of 4000 tokens
	// Ethernet-100G     8.9 GB/s,  59.1 ms for a prompt of 4000 tokens
	// Ethernet-200G    17.8 GB/s,  29.5 ms for a prompt of 4000 tokens
	// PCIe4-x16        25.2 GB/s,  20.8 ms for a prompt of 4000 tokens
	// InfiniBand-400G  36.0 GB/s,  14.6 ms for a prompt of 4000 tokens
	// PCIe5-x16        50.4 GB/s,  10.4 ms for a prompt of 4000 tokens
	// NVLink3         285.0 GB/s,   1.8 ms for a prompt of 4000 tokens
	// NVLink4         355.5 GB/s,   1.5 ms for a prompt of 4000 tokens
	// NVLink5         657.0 GB/s,   0.8 ms for a prompt of 4000 tokens
}
