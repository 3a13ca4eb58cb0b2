package metrics_test

import (
	"fmt"
	"os"
	"time"

	"servesim/sim"
	"servesim/sim/metrics"
)

// A collector is listed in Config.Observers; here it is fed the events of one
// request by hand: three tokens, at 20, 30 and 50 ms.
func Example() {
	cfg := sim.Config{
		Replicas: []sim.Replica{{KVBlocks: 10}},
		Classes:  []sim.Class{{Name: "chat", TTFT: 100 * time.Millisecond, Gap: 50 * time.Millisecond}},
	}
	c, err := metrics.New(cfg, metrics.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	at := func(ms int) sim.Time { return sim.Time(ms * 1e6) }
	waiting := sim.Timeline{Arrival: 0, Queued: 0, Admitted: sim.NoTime, PrefillEnd: sim.NoTime, FirstToken: sim.NoTime}
	done := sim.Timeline{Arrival: 0, Queued: 0, Admitted: 0, PrefillEnd: at(20), FirstToken: at(20)}
	step := func(from, to int, b sim.Batch, gaps ...sim.GapGroup) sim.Event {
		return sim.Event{Kind: sim.StepEnd, Time: at(to), Took: at(to).Sub(at(from)), Batch: &b, Gaps: gaps, Tokens: 1, FreeBlocks: 9}
	}
	for _, e := range []sim.Event{
		{Kind: sim.Arrive, Replica: -1, Timeline: waiting},
		{Kind: sim.Queue, Timeline: waiting},
		{Kind: sim.Admit, Timeline: waiting},
		step(0, 20, sim.Batch{Prefills: []sim.Chunk{{Tokens: 8, Last: true}}}),
		step(20, 30, sim.Batch{Decodes: 1}, sim.GapGroup{Prev: at(20), Count: 1}),
		step(30, 50, sim.Batch{Decodes: 1}, sim.GapGroup{Prev: at(30), Count: 1}),
		{Kind: sim.Finish, Time: at(50), Output: 3, Timeline: done},
		{Kind: sim.End, Time: at(50)},
	} {
		c.Observe(e)
	}
	report := c.Report()
	if err := report.WriteText(os.Stdout); err != nil {
		fmt.Println(err)
	}
	// Output:
	// 1 arrived, 1 completed, 0 rejected, 0 aborted, 0 unfinished
	// 3 steps, 3 tokens, 0 preemptions; measured from 0.00 to 0.0500 of 0.0500 s
	//
	// ms, linear percentiles, exact
	//              n       mean        p50        p90        p95        p99        max
	// TTFT         1      20.00     20.00*     20.00*     20.00*     20.00*      20.00
	// ITL          2      15.00      15.00     19.00*     19.50*     19.90*      20.00
	// TPOT         1      15.00     15.00*     15.00*     15.00*     15.00*      15.00
	// E2E          1      50.00     50.00*     50.00*     50.00*     50.00*      50.00
	//
	// throughput 60.00 tokens/s, 20.00 requests/s; goodput 20.00 requests/s
	// attainment 1.00: 1 of 1 (gap target by p95 per request, nearest-rank)
	//
	// over time                                   mean       peak
	// waiting in the queues                       0.00          0
	// running                                     1.00          1
	// in the system                               1.00          1
	// batch, sequences, over busy time            1.00          1
	// batch, sequences, per step                  1.00          1
	// KV blocks in use, fraction of usable      0.1000     0.1000
	// busy, fraction of time                      1.00
	//
	// Little's law: L 1.00, λ 20.00/s, W 0.0500 s, residual 0.00
	//
	// start       intended arrival of the request
	// TTFT        first token - start
	// ITL         every gap between two tokens of a request, pooled per token
	// TPOT        (last token - first token) / (tokens - 1); a request with one
	//             token has none
	// E2E         last token - start
	// throughput  completed work / (last completion - first arrival)
	// goodput     completed requests that met every stated target of their class,
	//             over the same time
	// attainment  the same requests / all arrivals; rejected, aborted and
	//             unfinished ones count as missed
	// –           undefined or not measured
	// *           too few observations lie beyond the percentile to trust it
}
