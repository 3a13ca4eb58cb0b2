package main

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"time"

	"servesim/sim"
	"servesim/workload"
)

// document generates the requests of a workload document, as many as the
// command line allows. What clients send that wait for answers is told by how
// long these are taken to need.
func document(o options, _ bool, c *workload.Counts) iter.Seq2[sim.Request, error] {
	return func(yield func(sim.Request, error) bool) {
		*c = workload.Counts{}
		requests, err := generate(o)
		if err != nil {
			yield(sim.Request{}, err)
			return
		}
		for q, err := range requests {
			if err == nil && o.horizon > 0 && q.Arrival >= sim.Time(o.horizon) {
				return
			}
			if err == nil {
				c.Read++
				c.Emitted++
			}
			if !yield(q, err) || err != nil || c.Read == o.requests {
				return
			}
		}
	}
}

func generate(o options) (iter.Seq2[sim.Request, error], error) {
	f, err := os.Open(o.file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in, err := unzip(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.file, err)
	}
	d, err := workload.ReadDocument(in, o.file)
	if err != nil {
		return nil, err
	}
	if !d.Feedback() {
		return d.Requests(), nil
	}
	if o.closedLoop() {
		return nil, fmt.Errorf("%s: %w", o.file, errClosedLoop)
	}
	r, err := d.Begin()
	if err != nil {
		return nil, err
	}
	return r.OpenLoop(func(q sim.Request) time.Duration { return o.takes(q.Output) }), nil
}

// takes is how long an answer is taken to need.
func (o *options) takes(output int) time.Duration {
	return o.ttft + time.Duration(max(0, output-1))*o.gap
}

var errClosedLoop = errors.New("its requests arrive when answers come; -assume-ttft and -assume-itl say how long these are taken to need")
