package costmodel

import (
	"fmt"
	"strings"
	"time"
)

// links holds what one GPU has towards others, from slow to fast. Bandwidths are
// those of the standards. Efficiency and latency are fits of t = latency +
// bytes/rate to send and receive between two GPUs, 2 kB to 64 MB, where such
// measurements are at hand (published with Vidur); the others borrow them:
//
//   - NVLink3, NVLink4: A100 and H100 DGX, within a node: 286 and 358 GB/s, mean
//     errors from 1 MB on 10 and 3 %.
//   - NVLink5: the share of vLLM's all-reduce on four B200 (656 of 900 GB/s,
//     aiconfigurator), and the latency of NVLink4.
//   - InfiniBand-400G: H100 DGX between nodes, an adapter a GPU: 36 GB/s, mean
//     error 4 %.
//   - Ethernet: 142 of 200 GB/s, which Mooncake's transfer engine reports for
//     vLLM over eight 200 Gb/s RoCE adapters with prompts of 32,768 tokens; the
//     latency of InfiniBand. Ethernet-100G and -25G take both over.
//   - PCIe: packets with 256 bytes of payload carry 0.91 of the bandwidth; 0.8 is
//     chosen, and the latency of an H100's NVLink. Copies between GPUs under
//     different root complexes are slower.
//
// Real transfer engines start many small copies and reach less for short
// prompts.
var links = []Link{
	{Name: "Ethernet-25G", Bandwidth: 25e9 / 8, Efficiency: 0.71, Latency: 19 * time.Microsecond},
	{Name: "Ethernet-100G", Bandwidth: 100e9 / 8, Efficiency: 0.71, Latency: 19 * time.Microsecond},
	{Name: "Ethernet-200G", Bandwidth: 200e9 / 8, Efficiency: 0.71, Latency: 19 * time.Microsecond},
	{Name: "PCIe4-x16", Bandwidth: 16 * 16e9 / 8 * 128 / 130, Efficiency: 0.8, Latency: 8 * time.Microsecond},
	{Name: "InfiniBand-400G", Bandwidth: 400e9 / 8, Efficiency: 0.72, Latency: 19 * time.Microsecond},
	{Name: "PCIe5-x16", Bandwidth: 16 * 32e9 / 8 * 128 / 130, Efficiency: 0.8, Latency: 8 * time.Microsecond},
	{Name: "NVLink3", Bandwidth: 300e9, Efficiency: 0.95, Latency: 13 * time.Microsecond},
	{Name: "NVLink4", Bandwidth: 450e9, Efficiency: 0.79, Latency: 8 * time.Microsecond},
	{Name: "NVLink5", Bandwidth: 900e9, Efficiency: 0.73, Latency: 8 * time.Microsecond},
}

// Links returns the links of the catalogue, from slow to fast.
func Links() []Link { return append([]Link(nil), links...) }

// LookupLink returns the link of that name, upper and lower case alike. The error
// lists the known names.
func LookupLink(name string) (Link, error) {
	names := make([]string, len(links))
	for i, l := range links {
		if strings.EqualFold(l.Name, name) {
			return l, nil
		}
		names[i] = l.Name
	}
	return Link{}, fmt.Errorf("costmodel: unknown link %q; known are %s", name, strings.Join(names, ", "))
}
