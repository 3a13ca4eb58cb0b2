package main

import (
	"fmt"
	"os"
)

func main() {
	rs, err := reportRuns(options{data: "/work/shared/measured"})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for _, r := range rs {
		fmt.Printf("%s %s %s %s blocks %d %s\n host %+v from %s (%v) own %+v\n pace %.3f bare %.3f A %.2f steps %d preempt %d series %+v\n", r.Run, r.Model, r.GPU, r.Device, r.Blocks, r.BlocksFrom, r.Host, r.HostFrom, r.HostFit, r.Residual, r.Pace, r.BarePace, r.Amplification, r.Steps, r.Preemptions, r.Series)
		for i, f := range r.Figures {
			p := 0.0
			if f.Peer != nil {
				p = *f.Peer
			}
			fmt.Printf("  %-18s %10.1f %10.1f %+6.1f%%  bare %+6.1f%% peer %+6.1f%%\n", f.Metric, f.Real, f.Simulated, 100*f.Error, 100*r.Bare[i].Error, 100*p)
		}
		for _, c := range r.Checks {
			if !c.Met {
				fmt.Printf("  MISSED %s %.1f%% > %.1f%%\n", c.Metric, 100*c.Error, 100*c.Limit)
			}
		}
	}
}
