package scenario

import (
	"servesim/sim"
	"servesim/sim/trace"
	"servesim/workload"
)

// clientScenarios are faults between the client and the engine. The engine does
// in all of them what it does in the healthy run, but for the load.
func clientScenarios() []Scenario {
	return []Scenario{
		{
			Name: "slow_gateway", About: "One gateway process takes 200 ms for each request, which wait for it; answers are short.",
			Causes: []string{"slow_gateway"}, Valid: true, TTFT: trace.Gateway, E2E: trace.Gateway,
			change: func(p *plan) error {
				p.parts = []workload.Part{part("chat", workload.Poisson{Rate: perS}, requests, lengths(1500, 10))}
				p.config.Admission = &workload.GatewayQueue{Service: workload.After(200 * ms)}
				return nil
			},
		},
		{
			Name: "slow_retrieval", About: "Looking up passages for the prompt takes 300 ms.",
			Causes: []string{"slow_retrieval"}, Valid: true, TTFT: trace.Gateway, E2E: trace.Stream,
			change: func(p *plan) error {
				p.side.Retrieval = workload.After(300 * ms)
				return nil
			},
		},
		{
			Name: "distant_client", About: "Clients are on another continent, 160 ms away, and open a connection for every request.",
			Causes: []string{"distant_client"}, Valid: true, TTFT: trace.NetworkIn, E2E: trace.Stream,
			change: func(p *plan) error {
				p.side.NetworkIn, p.side.NetworkOut = workload.After(3*160*ms), workload.After(160*ms)
				return nil
			},
		},
		{
			Name: "slow_uploads", About: "One client in eight needs 2.5 s to send its prompt; answers are short.",
			Causes: []string{"slow_upload"}, Valid: true, TTFT: trace.NetworkIn, E2E: trace.NetworkIn,
			change: func(p *plan) error {
				p.parts = []workload.Part{part("chat", workload.Poisson{Rate: perS}, requests, lengths(1500, 10))}
				p.side.NetworkIn = workload.MixedDelay{{Weight: 7, Delay: workload.After(9 * ms)}, {Weight: 1, Delay: workload.After(2500 * ms)}}
				p.affected = func(e sim.Event) bool { return e.Path().NetworkIn > 9*ms }
				return nil
			},
		},
		{
			Name: "proxy_buffering", About: "A proxy keeps every answer until it is complete.",
			Causes: []string{"proxy_buffering"}, Valid: true, TTFT: trace.NetworkToFirst, E2E: trace.NetworkToFirst,
			change: func(p *plan) error {
				p.side.Proxy.Tokens = 1 << 20
				return nil
			},
		},
		{
			Name: "chunk_coalescing", About: "A proxy sends what it has four times a second.",
			Causes: []string{"chunk_coalescing"}, Valid: true, TTFT: trace.NetworkToFirst, E2E: trace.Stream,
			change: func(p *plan) error {
				p.side.Proxy.Every = 250 * ms
				return nil
			},
		},
	}
}
