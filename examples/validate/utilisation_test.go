package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"servesim/costmodel"
)

// Two requests of 32 positions and two decodes each, in four steps of a second.
// A position takes 576 multiply-adds in the layer, a pair of query and key 16,
// logits 256, and a multiply-add of BF16 counts four:
//
//	68 positions · 576 + (2·528 + 2·(33+34)) pairs · 16 + 6 rows · 256 = 59,744
//
// Each step reads 1152 bytes of the layer and 512 of the LM head; a position
// moves 208 in products, 32 in the embedding and 240 in element-wise kernels, 48
// in attention, which reads 16 for a key (2·32 and 134 of them); a row of logits
// moves 80 and 192.
func TestUtilisation(t *testing.T) {
	const counted = 4 * (68*576 + (2*528+2*(33+34))*16 + 6*256)
	const moved = 4*(1152+512) + 68*(208+32+240+48) + (2*32+134)*16 + 6*(80+192)
	m := costmodel.Model{Name: "tiny", Layers: 1, Hidden: 8, Intermediate: 16, Heads: 2, KVHeads: 1, HeadDim: 4, Vocab: 32}
	g := costmodel.GPU{Name: "slow", Rate: 1e5, FP8: 3e5, Bandwidth: 1e5, Memory: 1e9, Link: 1}
	r := engine(t, fmt.Sprintf(settings, `,"async_scheduling":false`))
	for _, c := range []struct {
		name     string
		tp       int
		fp8      float64
		mfu, mbu float64
	}{
		{"one GPU", 1, 3e5, counted / (4 * 3e5), moved / (4 * 1e5)},
		{"without FP8", 1, 0, counted / (4 * 2e5), moved / (4 * 1e5)},
		// Each reads half of what is divided; key and value are on both, and so
		// are vectors of the hidden size.
		{"two GPUs", 2, 3e5, counted / (2 * 4 * 3e5), 0},
	} {
		g.FP8 = c.fp8
		counts, err := costmodel.NewTransformer(costmodel.Setup{Model: m, GPU: g, TensorParallel: c.tp})
		if err != nil {
			t.Fatal(err)
		}
		r.counts = counts
		report := &runReport{Run: "two", Model: "m", GPU: "g", TP: c.tp, Ranks: 1}
		if err := report.simulate(r); err != nil {
			t.Fatal(err)
		}
		u := report.Utilisation
		if math.Abs(u.MFU/c.mfu-1) > 1e-12 || c.mbu > 0 && math.Abs(u.MBU/c.mbu-1) > 1e-12 {
			t.Errorf("%s: MFU %v, MBU %v, want %v and %v", c.name, u.MFU, u.MBU, c.mfu, c.mbu)
		}
		if c.tp == 2 && (u.MBU <= moved/(2*4*1e5) || u.MBU >= moved/(4*1e5)) {
			t.Errorf("%s: MBU %v", c.name, u.MBU)
		}
		var out strings.Builder
		if err := printRun(&out, report); err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("MFU %.1f %%, MBU %.1f %%: ", 100*u.MFU, 100*u.MBU); !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// Two ranks that do as one does use both GPUs as it does.
func TestUtilisationOfRanks(t *testing.T) {
	s, err := costmodel.NewSetup("Llama-3.1-8B", "H100")
	if err != nil {
		t.Fatal(err)
	}
	counts, err := costmodel.NewTransformer(s)
	if err != nil {
		t.Fatal(err)
	}
	var list []utilisation
	for ranks := 1; ranks <= 2; ranks++ {
		r := engine(t, fmt.Sprintf(settings, fmt.Sprintf(`,"async_scheduling":false,"data_parallel_size":%d`, ranks)))
		r.apart = true
		r.rec.requests = r.rec.requests[:1]
		if ranks == 2 {
			r.rec.requests = append(r.rec.requests, r.rec.requests[0])
		}
		h, err := r.run()
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, h.utilisation(counts, ranks))
	}
	if list[0] != list[1] || list[0].MFU <= 0 {
		t.Errorf("one rank %+v, two %+v", list[0], list[1])
	}
}

// A GPU that the catalogue does not know has no rates, though its layers may
// have been measured.
func TestUtilisationOfAStranger(t *testing.T) {
	from, data := filepath.Join(shared(t), "layers"), t.TempDir()
	for _, kind := range []string{"dense", "per_sequence", "attention"} {
		text, err := os.ReadFile(filepath.Join(from, "rtx4090_llama-31-8b_tp1_"+kind+".csv.gz"))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(data, "layers", "b60_llama-31-8b_tp1_"+kind+".csv.gz"), string(text))
	}
	for gpu, want := range map[string]string{
		"Intel Arc Pro B60": `MFU and MBU are not known: no GPU of the catalogue is named in "Intel Arc Pro B60"`,
		"NVIDIA H100 80GB":  "MFU ",
	} {
		r, report, err := prepare(options{data: data}, folder(t, fmt.Sprintf(recorded, gpu), sound))
		if err != nil {
			t.Fatal(err)
		}
		if err := report.simulate(r); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := printRun(&out, report); err != nil || !strings.Contains(out.String(), "\n"+want) {
			t.Errorf("%v, no %q in\n%s", err, want, out.String())
		}
	}
}
