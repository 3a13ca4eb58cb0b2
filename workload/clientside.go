package workload

import (
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"

	"servesim/sim"
)

// ClientSide puts the clients of a workload at a distance: it gives every
// request a sim.Path, drawn by its class, and lets it arrive at the engine when
// it has come that way. List its Requests and its FollowUp in the run:
//
//	Sessions.Begin ─Requests─► ClientSide.Requests ─► sim.Run
//	     └─────────FollowUp──► ClientSide.FollowUp ─► sim.Config
//
// What is drawn depends on (Seed, the part of the path, the ID of the request)
// alone: nothing else that a run draws moves, and one more part moves no other.
// A request that has a Path keeps it, as does a retry, which has that of the
// attempt before. Deadline stays the instant it was, and Patience counts from
// the arrival at the engine.
type ClientSide struct {
	Seed uint64 `doc:"-"`
	// Classes says where the clients of each class are, by sim.Request.Class. A
	// single entry is that of every class.
	Classes []Regions `doc:"classes"`
	// BySession draws the region once for each Session and Source of sim.Origin,
	// not for each request.
	BySession bool `doc:"by_session,opt"`
}

// Validate reports the first invalid field.
func (c ClientSide) Validate() error {
	if len(c.Classes) == 0 {
		return errors.New("no Classes in ClientSide")
	}
	for i, r := range c.Classes {
		if err := r.Validate(); err != nil {
			return fmt.Errorf("ClientSide.Classes[%d]: %w", i, err)
		}
	}
	return nil
}

// Requests turns requests in the order in which they are sent, whose Arrival is
// when, into requests in order of arrival at the engine; simultaneous ones stay
// in the order of sending. It reads ahead by no more than is on the way. An
// invalid field, a class without regions, requests out of order and a delay
// that cannot be end the sequence with an error.
func (c ClientSide) Requests(requests iter.Seq2[sim.Request, error]) iter.Seq2[sim.Request, error] {
	return func(yield func(sim.Request, error) bool) {
		if err := c.Validate(); err != nil {
			fail(yield, err)
			return
		}
		d := newPathDrawer(c)
		var way onTheWay
		sent := sim.Time(0)
		for q, err := range requests {
			if err != nil {
				yield(sim.Request{}, err)
				return
			}
			if q.Arrival < sent {
				fail(yield, fmt.Errorf("ClientSide: request %d is sent at %dns, before %dns", q.ID, int64(q.Arrival), int64(sent)))
				return
			}
			sent = q.Arrival
			if !way.arrive(sent, yield) {
				return
			}
			if err := d.depart(&q); err != nil {
				fail(yield, err)
				return
			}
			way.add(q)
		}
		way.arrive(sim.Never, yield)
	}
}

// FollowUp gives a path to what a function for sim.Config.FollowUp sends, at the
// instants that the function has as arrivals. nil stays nil. It panics if a field
// is invalid or a class has no regions; the engine rejects a request whose path
// cannot be.
func (c ClientSide) FollowUp(next func(sim.Completion) []sim.Request) func(sim.Completion) []sim.Request {
	if err := c.Validate(); err != nil {
		panic("workload: " + err.Error())
	}
	if next == nil {
		return nil
	}
	d := newPathDrawer(c)
	return func(done sim.Completion) []sim.Request {
		requests := next(done)
		for i := range requests {
			if err := d.depart(&requests[i]); err != nil && requests[i].Path == nil {
				panic("workload: " + err.Error())
			}
		}
		return requests
	}
}

// Region returns a function that names the region of the client that an event of
// a request is about, for observers. It panics if a field is invalid, and names
// no region where the class has none.
func (c ClientSide) Region() func(sim.Event) string {
	if err := c.Validate(); err != nil {
		panic("workload: " + err.Error())
	}
	d := newPathDrawer(c)
	return func(e sim.Event) string {
		r, err := d.region(e.Class, e.ID, e.Origin())
		if err != nil {
			return ""
		}
		return r.Name
	}
}

// depart gives q, sent at its Arrival, its path and the instant at which it
// reaches the engine. A path that cannot be leaves the arrival as it is.
func (d *pathDrawer) depart(q *sim.Request) (err error) {
	if q.Path != nil {
		return nil
	}
	if q.Path, err = d.draw(q); err != nil {
		return err
	}
	way := q.Path.Before()
	if q.Arrival > sim.Never.Add(-way) {
		return errNoTime
	}
	q.Arrival = q.Arrival.Add(way)
	return nil
}

// onTheWay is the requests that are sent and have not arrived.
type onTheWay struct {
	heap mergeHeap[sim.Request]
	sent int
}

func (w *onTheWay) add(q sim.Request) {
	w.sent++
	w.heap = append(w.heap, mergeHead[sim.Request]{at: q.Arrival, sequence: w.sent, v: q})
	w.heap.up(len(w.heap) - 1)
}

// arrive yields those that arrive up to t: nothing that is sent then or later
// overtakes them.
func (w *onTheWay) arrive(t sim.Time, yield func(sim.Request, error) bool) bool {
	for len(w.heap) > 0 && w.heap[0].at <= t {
		q, last := w.heap[0].v, len(w.heap)-1
		w.heap[0] = w.heap[last]
		w.heap[last] = mergeHead[sim.Request]{}
		w.heap = w.heap[:last]
		w.heap.down()
		if !yield(q, nil) {
			return false
		}
	}
	return true
}

// drawStream is a family with the numbers that are drawn from it.
type drawStream struct {
	family *family
	rand   *rand.Rand
}

func newDrawStream(seed uint64, purpose string) drawStream {
	f := newFamily(seed, purpose)
	return drawStream{f, rand.New(f)}
}

// at returns the beginning of the stream of an index.
func (s drawStream) at(index uint64) *rand.Rand {
	s.family.rewind(index)
	return s.rand
}
