package main

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Steps of a second on two ranks. Those of a dense model wait for nobody: each
// takes a request when it has arrived and its own step has ended, and the front
// end gives one to the rank that has least to do.
func TestRanksApart(t *testing.T) {
	for _, c := range []struct {
		apart, async bool
		want         [][3]float64 // taken, first and last token
		steps        []int
	}{
		// The second rank begins at 0.25 with the second request. The third waits
		// for the first rank, which is idle at 2.5: of the three that arrive
		// then one waits for the second rank.
		{true, false, [][3]float64{{0, 1, 1}, {0.25, 1.25, 5.25}, {1, 2, 2}, {2.5, 3.5, 3.5}, {3.25, 4.25, 4.25}, {2.5, 3.5, 3.5}}, []int{3, 5}},
		{true, true, [][3]float64{{0, 1, 1}, {0.25, 1.25, 5.25}, {1, 2, 2}, {2.5, 3.5, 3.5}, {3.25, 5.25, 5.25}, {2.5, 3.5, 3.5}}, []int{3, 5}},
		{false, false, [][3]float64{{0, 1, 1}, {1, 2, 6}, {1, 2, 2}, {3, 4, 4}, {3, 4, 4}, {3, 4, 4}}, []int{6}},
	} {
		r := engine(t, fmt.Sprintf(settings, fmt.Sprintf(`,"data_parallel_size":2,"async_scheduling":%t`, c.async)))
		r.apart = c.apart
		first := r.rec.requests[0]
		r.rec.requests = nil
		for i, at := range []float64{0, 0.25, 0.5, 2.5, 2.5, 2.5} {
			m := first
			m.ID, m.Arrival, m.Output = fmt.Sprint(i), first.Arrival+at, 1
			if i == 1 {
				m.Output = 5
			}
			r.rec.requests = append(r.rec.requests, m)
		}
		h, err := r.run()
		if err != nil {
			t.Fatal(err)
		}
		var got [][3]float64
		for _, l := range h.requests {
			got = append(got, [3]float64{l.taken, l.first, l.last})
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("apart %t, async %t (-want +got):\n%s", c.apart, c.async, diff)
		}
		var steps []int
		for _, list := range h.steps {
			steps = append(steps, len(list))
		}
		if diff := cmp.Diff(c.steps, steps); diff != "" || h.makespan != c.want[1][2] {
			t.Errorf("apart %t: makespan %v, steps (-want +got):\n%s", c.apart, h.makespan, diff)
		}
		// Four steps of the second request, beside whatever there is.
		lives := h.lives(r.rec)
		if len(lives) != 1 || lives[0].Inputs[0] != 4 || lives[0].Inputs[1] != 4 {
			t.Errorf("apart %t: lives %+v", c.apart, lives)
		}
		if !c.apart {
			continue
		}
		if lives[0].Inputs[2] != 5 {
			t.Errorf("%v sequences in four steps of a rank, want 5", lives[0].Inputs[2])
		}
		// Both at work at 0.5; at 2.25 the second only.
		series := h.seriesOf([]second{{T: 0.5}, {T: 2.25}}, r.blocks, 2)
		if series[0].Running != 2 || series[1].Running != 1 || series[1].OutputRate != 4/1.75 {
			t.Errorf("series %+v", series)
		}
		if kv := 100 * 3. / 198; series[0].KV < 2*100*2./198-1e-9 || series[1].KV < kv-1e-9 || series[1].KV > kv+1e-9 {
			t.Errorf("KV %v and %v %%, want %v behind", series[0].KV, series[1].KV, kv)
		}
	}
}

// Ranks that share experts wait for each other, others do not.
func TestWhoseRanksAreApart(t *testing.T) {
	for model, want := range map[string]bool{"meta-llama/Llama-3.1-8B": true, "Qwen/Qwen3-30B-A3B": false} {
		dir := folder(t, fmt.Sprintf(`{"model":%q,"hardware":{"device_name":"NVIDIA H100 80GB HBM3"},"kv_cache":{"num_gpu_blocks":1000},
			"engine_kwargs":{"data_parallel_size":2,"max_num_seqs":4,"max_num_batched_tokens":64}}`, model), sound)
		r, report, err := prepare(options{data: t.TempDir()}, dir)
		if err != nil {
			t.Fatal(err)
		}
		if r.apart != want || report.Ranks != 2 {
			t.Errorf("%s: apart %t with %d ranks, want %t with 2", model, r.apart, report.Ranks, want)
		}
		if _, err := r.run(); err != nil {
			t.Error(err)
		}
	}
}
