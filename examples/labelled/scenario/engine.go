package scenario

import (
	"time"

	"servesim/costmodel"
	"servesim/scheduler"
	"servesim/sim"
	"servesim/sim/kv"
	"servesim/sim/trace"
	"servesim/workload"
)

// engineScenarios are faults of the engine and what it runs on.
func engineScenarios() []Scenario {
	return []Scenario{
		{
			Name: "few_slots", About: "The engine runs two requests at a time.",
			Causes: []string{"few_slots"}, Valid: true, TTFT: trace.Queue, E2E: trace.Queue,
			change: func(p *plan) error {
				p.config.Replicas[0].MaxSeqs = 2
				p.affected = func(e sim.Event) bool { return e.Ledger().Queue.Slots+e.Ledger().Queue.Order > 0 }
				return nil
			},
		},
		{
			Name: "kv_shortage", About: "The KV cache holds some three requests.",
			Causes: []string{"kv_shortage"}, Valid: true, TTFT: trace.Queue, E2E: trace.Queue,
			change: func(p *plan) error {
				p.config.Replicas[0].KVBlocks = 340
				p.parts = []workload.Part{part("chat", workload.Poisson{Rate: 1.5 * perS}, requests, lengths(1500, 80))}
				p.affected = func(e sim.Event) bool { return e.Ledger().Queue.Memory+e.Ledger().Queue.Order > 0 }
				return nil
			},
		},
		{
			Name: "preemption_storm", About: "Forty short prompts at a time find room in the KV cache, and their long answers none: they are preempted and computed again.",
			Causes: []string{"preemption"}, Valid: true, TTFT: trace.Queue, E2E: trace.Stream,
			change: func(p *plan) error {
				p.config.Replicas[0].KVBlocks, p.config.Replicas[0].MaxBatchTokens = 500, 512
				p.parts = []workload.Part{part("chat", workload.Bursts{Size: 40, Every: 30 * time.Second}, requests, lengths(150, 500))}
				p.affected = func(e sim.Event) bool { return e.Preemptions > 0 }
				return nil
			},
		},
		{
			Name: "straggler", About: "One of four replicas takes three times as long for every step.",
			Causes: []string{"straggler"}, Valid: true, TTFT: trace.Prefill, E2E: trace.Stream,
			change: func(p *plan) error {
				p.replicas(4, &scheduler.RoundRobin{})
				p.parts = []workload.Part{part("chat", workload.Poisson{Rate: 3 * perS}, 2*requests, lengths(1500, 80))}
				p.config.Windows = []sim.Window{{Replica: 2, To: sim.Never, Factor: 3}}
				p.affected = func(e sim.Event) bool { return e.Replica == 2 }
				return nil
			},
		},
		{
			Name: "pauses", About: "Every 2 s the engine starts no step for 700 ms, as while memory is collected.",
			Causes: []string{"pauses"}, Valid: true, TTFT: trace.Queue, E2E: trace.Stream,
			change: func(p *plan) error {
				const every, long = 2 * time.Second, 700 * ms
				for i := range 100 {
					from := sim.Time(0).Add(time.Duration(i+1) * every)
					p.config.Windows = append(p.config.Windows, sim.Window{From: from, To: from.Add(long), Pause: true})
				}
				p.affected = func(e sim.Event) bool {
					for _, w := range p.config.Windows {
						if e.Timeline.Queued < w.To && e.Time > w.From {
							return true
						}
					}
					return false
				}
				return nil
			},
		},
		{
			Name: "slow_memory", About: "The memory of the GPU has a quarter of its bandwidth: decode steps take four times as long.",
			Causes: []string{"slow_decode"}, Valid: true, TTFT: trace.Prefill, E2E: trace.Stream,
			change: func(p *plan) (err error) {
				p.setup.GPU.Bandwidth /= 4
				p.config.Replicas[0], err = p.replica(p.setup)
				return err
			},
		},
		{
			Name: "slow_compute", About: "The GPU computes at a sixth of its rate, as under a power cap; answers are a few tokens.",
			Causes: []string{"slow_prefill"}, Valid: true, TTFT: trace.Prefill, E2E: trace.Prefill,
			change: func(p *plan) (err error) {
				p.setup.GPU.Rate /= 6
				p.parts = []workload.Part{part("labels", workload.Poisson{Rate: perS / 4}, requests, lengths(1500, 4))}
				p.config.Replicas[0], err = p.replica(p.setup)
				return err
			},
		},
		{
			Name: "interference", About: "Documents of 8,000 tokens are computed in the steps of running answers.",
			Causes: []string{"interference"}, Valid: true, TTFT: trace.Prefill, E2E: trace.Stream,
			change: func(p *plan) error {
				p.parts = append(p.parts, part("document", workload.Constant{Rate: 1}, 60, workload.Tokens{Prompt: 8000, Output: 4}))
				// Answers whose gaps are longer for what is computed beside them.
				p.affected = func(e sim.Event) bool {
					l := e.Ledger()
					return e.Prompt != 8000 && l.Stream.Interference > l.Stream.Decode/4
				}
				return nil
			},
		},
		{
			Name: "cold_cache", About: "A time stamp at its head makes every system prompt another one, so that the prefix cache has none.",
			Causes: []string{"cold_cache"}, Valid: true, TTFT: trace.Prefill, E2E: trace.Stream,
			change: func(p *plan) error {
				p.systemPrompts(func(id int) int { return id })
				return nil
			},
		},
		{
			Name: "degraded_link", About: "The link between two prefill and one decode replica carries a twenty-fifth of its rate.",
			Causes: []string{"degraded_link"}, Valid: true, TTFT: trace.FirstDecode, E2E: trace.FirstDecode,
			change: func(p *plan) error {
				ethernet, err := costmodel.LookupLink("Ethernet-100G")
				if err != nil {
					return err
				}
				link, err := p.setup.KVLink(ethernet)
				if err != nil {
					return err
				}
				unit := p.config.Replicas[0]
				scheduler.Disaggregated{
					Prefill: 2, Decode: 1, Link: link, FirstToken: sim.FirstFromDecode,
					PrefillReplica: func(int) sim.Replica { return unit },
				}.Fill(&p.config)
				p.parts = []workload.Part{part("chat", workload.Poisson{Rate: perS / 4}, requests, lengths(1500, 20))}
				p.config.Windows = []sim.Window{{Replica: -1, Link: true, To: sim.Never, Factor: 25}}
				return nil
			},
		},
	}
}

// chain is the hash of block b of system prompt n and of all before it.
func chain(n, b int) kv.Hash { return kv.Hash(uint64(n)<<32 | uint64(b)<<1 | 1) }
