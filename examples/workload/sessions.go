package main

import (
	"context"
	"errors"

	"servesim/sim"
	"servesim/workload"
)

// describeSessions describes a recording of sessions in closed loop: when they
// begin, how long their rounds are, and what these share. Sessions that are
// out of order are put in order.
func describeSessions(ctx context.Context, o options, out *Output) error {
	t := workload.TraceLab{Path: o.file, BlockTokens: o.blockTokens}
	err := readSessions(ctx, o, t, out)
	if errors.Is(err, workload.ErrOrder) {
		t.Sort = true
		err = readSessions(ctx, o, t, out)
	}
	return err
}

func readSessions(ctx context.Context, o options, t workload.TraceLab, out *Output) error {
	var starts, rounds []sim.Request
	var counts, waits []float64
	block := o.blockTokens
	if block == 0 {
		block = sim.DefaultBlockTokens
	}
	for s, err := range t.Sessions() {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		requests := s.Requests(block)
		starts = append(starts, requests[0])
		rounds = append(rounds, requests...)
		counts = append(counts, float64(len(requests)))
		for _, r := range s.Rounds[:len(s.Rounds)-1] {
			waits = append(waits, r.Wait.Seconds())
		}
	}
	out.Rows = &workload.Counts{Read: len(rounds), Emitted: len(rounds)}
	out.Sessions = newSessions(counts, waits, "an answer and the next request")
	d, shape, err := describeSlice(starts)
	if err != nil {
		return err
	}
	out.Starts, out.StartShape = &d, &shape.Arrivals
	for i := range rounds {
		rounds[i].Arrival = 0 // which depends on answers
	}
	lengths, lengthShape, err := describeSlice(rounds)
	if err != nil {
		return err
	}
	out.Workload, out.Shape, out.Conventions = &lengths, &lengthShape, requestConvention
	if o.noPrefix {
		return nil
	}
	s, err := workload.DescribeSharing(workload.FromSlice(rounds), o.cacheBlocks...)
	out.Sharing = &s
	out.Conventions += sharingConvention
	return err
}

func describeSlice(requests []sim.Request) (workload.Description, workload.Shape, error) {
	d, err := workload.Describe(workload.FromSlice(requests))
	if err != nil {
		return d, workload.Shape{}, err
	}
	s, err := workload.DescribeShape(workload.FromSlice(requests))
	return d, s, err
}
