package workload

import (
	"fmt"
	"math/rand/v2"

	"servesim/sim"
)

// GatewayQueue is a gateway with a queue of its own, as a sim.Admission: one of
// Servers takes each request for a time that Service draws, in order of arrival,
// and only then is it routed. It makes a slow gateway, whose delay grows with
// the load, where ClientPath.Gateway is a delay that does not.
//
// A request waits at the front door: between sim.Timeline's Arrival and Queued,
// in the gateway phase of a trace, and as a deferral in reports. What a client
// gives up is served all the same. Beside other policies it stands in a
// scheduler.All that asks it at the arrival of every request.
//
// Service draws depend on (Seed, ID of the request) alone. A GatewayQueue belongs
// to one run. It panics if a field is invalid.
type GatewayQueue struct {
	Seed    uint64 `doc:"-"`
	Servers int    `doc:"servers,opt"` // 0 means 1
	Service Delay  `doc:"service"`

	free  []sim.Time // when each server is
	draws *family
	rand  *rand.Rand
}

// Validate reports the first invalid field.
func (g *GatewayQueue) Validate() error {
	if g.Servers < 0 {
		return fmt.Errorf("GatewayQueue.Servers is %d, want at least 0", g.Servers)
	}
	return validate("GatewayQueue.Service", g.Service)
}

// Admit implements sim.Admission.
func (g *GatewayQueue) Admit(now sim.Time, q sim.Query, _ []sim.Load) sim.Decision {
	if now > q.Arrival {
		return sim.Decision{} // it has been served
	}
	if g.free == nil {
		g.begin()
	}
	server := 0
	for i, t := range g.free {
		if t < g.free[server] {
			server = i
		}
	}
	g.draws.rewind(uint64(q.ID))
	service := g.Service.Draw(g.rand)
	if service < 0 || service > longestDelay {
		panic(fmt.Sprintf("workload: GatewayQueue.Service drew %v for request %d, want from 0 to %v", service, q.ID, longestDelay))
	}
	end := max(now, g.free[server]).Add(service)
	g.free[server] = end
	if end == now {
		return sim.Decision{}
	}
	return sim.Decision{Until: end}
}

func (g *GatewayQueue) begin() {
	if err := g.Validate(); err != nil {
		panic("workload: " + err.Error())
	}
	g.free = make([]sim.Time, max(1, g.Servers))
	g.draws = newFamily(g.Seed, "gateway service")
	g.rand = rand.New(g.draws)
}
