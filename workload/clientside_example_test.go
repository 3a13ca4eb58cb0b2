package workload_test

import (
	"context"
	"fmt"
	"time"

	"servesim/sim"
	"servesim/workload"
)

// Half of the clients are at the other end of a continent, behind a proxy that
// sends four tokens at a time; all pass a gateway that takes 2 ms. The engine
// serves both alike, and their clients see something else.
func ExampleClientSide() {
	near, far := workload.SameRegion(), workload.CrossRegion()
	far.Proxy = sim.Proxy{Tokens: 4}
	near.Gateway, far.Gateway = workload.After(2*time.Millisecond), workload.After(2*time.Millisecond)
	clients := workload.ClientSide{Seed: 1, Classes: []workload.Regions{{
		{Name: "near", Weight: 1, Path: near},
		{Name: "far", Weight: 1, Path: far},
	}}}
	w := workload.Workload{
		Arrivals: workload.Limit{Arrivals: workload.Constant{Rate: 1}, Count: 4}, // when requests are sent
		Mix:      []workload.Share{{Lengths: workload.Tokens{Prompt: 100, Output: 8}}},
	}
	region := clients.Region()
	cfg := sim.Config{Replicas: []sim.Replica{busyReplica()}, Classes: w.Classes(), TokenTimes: true}
	cfg.Observers = []sim.Observer{sim.ObserverFunc(func(e sim.Event) {
		if e.Kind == sim.Finish {
			client := e.Client()
			fmt.Printf("%d from %-5s engine: first token %v behind the arrival; client: %v behind the send\n",
				e.ID, region(e)+":", e.Timeline.FirstToken.Sub(e.Timeline.Arrival), client.First.Sub(client.Send))
		}
	})}
	if _, err := sim.Run(context.Background(), cfg, clients.Requests(w.Requests())); err != nil {
		fmt.Println(err)
	}
	// Output:
	// 0 from far:  engine: first token 2ms behind the arrival; client: 79ms behind the send
	// 1 from near: engine: first token 2ms behind the arrival; client: 6ms behind the send
	// 2 from far:  engine: first token 2ms behind the arrival; client: 79ms behind the send
	// 3 from far:  engine: first token 2ms behind the arrival; client: 79ms behind the send
}

// A gateway that serves 250 requests a second holds a burst of ten back.
func ExampleGatewayQueue() {
	w := workload.Workload{
		Arrivals: workload.Limit{Arrivals: workload.Bursts{Size: 10, Every: time.Second}, Count: 10},
		Mix:      []workload.Share{{Lengths: workload.Tokens{Prompt: 100, Output: 1}}},
	}
	cfg := sim.Config{Replicas: []sim.Replica{busyReplica()}, Classes: w.Classes(),
		Admission: &workload.GatewayQueue{Service: workload.After(4 * time.Millisecond)}}
	cfg.Observers = []sim.Observer{sim.ObserverFunc(func(e sim.Event) {
		if e.Kind == sim.Finish && e.ID%3 == 0 {
			fmt.Println(e.ID, e.Timeline.Queued.Sub(e.Timeline.Arrival), "at the gateway")
		}
	})}
	if _, err := sim.Run(context.Background(), cfg, w.Requests()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// 0 4ms at the gateway
	// 3 16ms at the gateway
	// 6 28ms at the gateway
	// 9 40ms at the gateway
}
