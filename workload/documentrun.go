package workload

import (
	"container/heap"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"path/filepath"
	"time"

	"servesim/sim"
)

// Requester is what makes the requests of a [Source]: [Workload], [Sessions],
// [Clients], [Workflow], or a recording.
type Requester interface {
	feed(o opening) (feed, error)
}

// opening is what a source gives its requests. They know nothing of other
// sources: they are of Source 0, and their classes are counted from 0.
type opening struct {
	seed   uint64
	name   string // of the source, which salts prefixes
	folder string // of relative paths
}

// feed is the requests of a run.
type feed struct {
	requests iter.Seq2[sim.Request, error]
	followUp func(sim.Completion) []sim.Request // nil: nothing follows
}

// path is where a file is.
func (o opening) path(name string) string {
	if o.folder == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(o.folder, name)
}

// open opens a file. Readers keep the name as it is written, since it salts
// prefixes: a document gives the same requests in any folder.
func (o opening) open(name string) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return os.Open(o.path(name)) }
}

func (w Workload) feed(o opening) (feed, error) {
	w.Seed, w.part = o.seed, o.name
	return feed{requests: w.Requests()}, w.Validate()
}

func (s Sessions) feed(o opening) (feed, error) {
	s.Seed, s.Source, s.Class, s.part = o.seed, 0, 0, o.name
	r, err := s.Begin()
	if err != nil {
		return feed{}, err
	}
	return feed{r.Requests(), r.FollowUp}, nil
}

func (c Clients) feed(o opening) (feed, error) {
	c.Seed, c.Source, c.Class, c.part = o.seed, 0, 0, o.name
	r, err := c.Begin()
	if err != nil {
		return feed{}, err
	}
	return feed{r.Requests(), r.FollowUp}, nil
}

func (w Workflow) feed(o opening) (feed, error) {
	w.Seed, w.Source, w.Class = o.seed, 0, 0
	r, err := w.Begin()
	if err != nil {
		return feed{}, err
	}
	return feed{r.Requests(), r.FollowUp}, nil
}

func (a AzureCSV) feed(o opening) (feed, error) {
	a.Open = o.open(a.Path)
	return feed{requests: a.Requests()}, nil
}

func (b BurstGPT) feed(o opening) (feed, error) {
	b.Open = o.open(b.Path)
	return feed{requests: b.Requests()}, nil
}

func (m Mooncake) feed(o opening) (feed, error) {
	m.Open = o.open(m.Path)
	return feed{requests: m.Requests()}, nil
}

func (p RAGPulse) feed(o opening) (feed, error) {
	p.Open = o.open(p.Path)
	beside := RAGPulse{Path: o.path(p.Path)}
	p.Side = func(name string) (io.ReadCloser, error) {
		_, in, err := beside.openSide(name)
		return in, err
	}
	return feed{requests: p.Requests()}, nil
}

func (t TraceLabReplay) feed(o opening) (feed, error) {
	t.Source, t.Class = 0, 0
	t.Recording.Open = o.open(t.Recording.Path)
	r, err := t.Begin()
	if err != nil {
		return feed{}, err
	}
	return feed{r.Requests(), r.FollowUp}, nil
}

func (t TraceLabOpenLoop) feed(o opening) (feed, error) {
	t.Open = o.open(t.Path)
	return feed{requests: t.Requests()}, nil
}

func (c LengthCSV) feed(o opening) (feed, error) {
	c.Open = o.open(c.Path)
	return feed{requests: c.Requests()}, nil
}

func (f TraceFile) feed(o opening) (feed, error) {
	return feed{requests: f.requests(o.open(f.Path))}, nil
}

// DocumentRun is the requests of one run of a [Document]: its Requests, FollowUp
// and Admission go to sim.Run and sim.Config. It is used once.
type DocumentRun struct {
	feeds   []feed
	class   []int // the first of each source
	sides   []*pathDrawer
	gateway *GatewayQueue
	used    bool
}

// Begin returns the requests of a run.
func (d Document) Begin() (*DocumentRun, error) {
	if err := d.Validate(); err != nil {
		return nil, fmt.Errorf("workload: %w", err)
	}
	r := &DocumentRun{}
	if d.Gateway != nil {
		r.gateway = &GatewayQueue{Seed: d.Seed, Servers: d.Gateway.Servers, Service: d.Gateway.Service}
	}
	class := 0
	for i, s := range d.Sources {
		seed := Stream(d.Seed, "part "+s.Name, 0).Uint64() // as that of a part of a Merged
		if s.Seed != nil {
			seed = *s.Seed
		}
		o := opening{seed: seed, name: s.Name}
		if d.place != nil {
			o.folder = d.place.folder
		}
		f, err := s.Requests.feed(o)
		if err != nil {
			return nil, err
		}
		if s.Speed != 0 {
			f.requests = Speed(f.requests, s.Speed)
		}
		if s.First != 0 {
			f.requests = Take(f.requests, s.First)
		}
		var side *pathDrawer
		if s.ClientSide != nil {
			c := *s.ClientSide
			c.Seed = seed
			f.requests, f.followUp = c.Requests(f.requests), c.FollowUp(f.followUp)
			side = newPathDrawer(c)
		}
		if s.Retry != nil {
			f.followUp = FollowUps(s.Retry.retry(seed).FollowUp, f.followUp)
		}
		r.feeds, r.class, r.sides = append(r.feeds, f), append(r.class, class), append(r.sides, side)
		class += len(s.classes())
		own := f.requests
		r.feeds[i].requests = func(yield func(sim.Request, error) bool) {
			for q, err := range own {
				if err == nil && (q.ID < 0 || q.ID >= 1<<48) {
					fail(yield, fmt.Errorf("source %q: request %d, want IDs from 0 to 2^48-1", s.Name, q.ID))
					return
				}
				if !yield(r.outside(i, q), err) {
					return
				}
			}
		}
	}
	return r, nil
}

// outside numbers a request of a source among those of all.
func (r *DocumentRun) outside(source int, q sim.Request) sim.Request {
	q.ID |= source << 48
	q.Class += r.class[source]
	q.Origin.Source = source
	return q
}

// inside undoes outside, so that what a source draws by numbers depends on no
// other source.
func (r *DocumentRun) inside(source int, q sim.Request) sim.Request {
	q.ID &^= source << 48
	q.Class -= r.class[source]
	q.Origin.Source = 0
	return q
}

// Requests yields the requests that need no answer before them, in order of
// arrival, simultaneous ones in the order of the sources. The ID of a request is its
// source times 2^48 plus its ID there, and Origin.Source is its source. It
// may be used once.
func (r *DocumentRun) Requests() iter.Seq2[sim.Request, error] {
	return func(yield func(sim.Request, error) bool) {
		if r.used {
			fail(yield, errors.New("DocumentRun.Requests is used twice"))
			return
		}
		r.used = true
		feeds := make([]iter.Seq2[sim.Request, error], len(r.feeds))
		for i, f := range r.feeds {
			feeds[i] = f.requests
		}
		merge(feeds, func(q sim.Request) sim.Time { return q.Arrival }, func(_ int, q sim.Request, err error) bool {
			return yield(q, err) && err == nil
		})
	}
}

// FollowUp answers the end of a request with those that its source sends then,
// for sim.Config.FollowUp.
func (r *DocumentRun) FollowUp(c sim.Completion) []sim.Request {
	i := c.Request.Origin.Source
	if i < 0 || i >= len(r.feeds) || r.feeds[i].followUp == nil {
		return nil
	}
	c.Request = r.inside(i, c.Request)
	requests := r.feeds[i].followUp(c)
	for j, q := range requests {
		requests[j] = r.outside(i, q)
	}
	return requests
}

// Admission is the gateway of the document, for sim.Config.Admission; nil if it
// has none.
func (r *DocumentRun) Admission() sim.Admission {
	if r.gateway == nil {
		return nil
	}
	return r.gateway
}

// Region names the region of the client that an event of a request is about, for
// observers. It is empty where the source has no client side.
func (r *DocumentRun) Region(e sim.Event) string {
	i := e.Origin().Source
	if i < 0 || i >= len(r.sides) || r.sides[i] == nil {
		return ""
	}
	q := r.inside(i, sim.Request{ID: e.ID, Class: e.Class, Origin: e.Origin()})
	region, err := r.sides[i].region(q.Class, q.ID, q.Origin)
	if err != nil {
		return ""
	}
	return region.Name
}

// OpenLoop yields all requests as if an engine answered each the time after
// its arrival that takes says: without an engine, that says what clients which
// wait for answers would send. Nobody is refused or gives up. It may be used
// once, in place of Requests.
func (r *DocumentRun) OpenLoop(takes func(sim.Request) time.Duration) iter.Seq2[sim.Request, error] {
	return func(yield func(sim.Request, error) bool) {
		next, stop := iter.Pull2(r.Requests())
		defer stop()
		var arrivals, ends arrivalHeap // ends have the end as Arrival
		underWay := map[int]sim.Request{}
		head, err, more := next()
		for {
			if more && err != nil {
				yield(sim.Request{}, err)
				return
			}
			at := sim.Time(math.MaxInt64)
			if more {
				at = head.Arrival
			}
			if len(arrivals) > 0 {
				at = min(at, arrivals[0].Arrival)
			}
			if len(ends) > 0 && ends[0].Arrival <= at {
				end := heap.Pop(&ends).(sim.Request)
				q := underWay[end.ID]
				delete(underWay, end.ID)
				for _, follows := range r.FollowUp(answered(q, end.Arrival)) {
					heap.Push(&arrivals, follows)
				}
				continue
			}
			var q sim.Request
			switch {
			case more && head.Arrival == at:
				q = head
				head, err, more = next()
			case len(arrivals) > 0:
				q = heap.Pop(&arrivals).(sim.Request)
			default:
				return
			}
			d := takes(q)
			if d < 0 || q.Arrival > math.MaxInt64-sim.Time(d) {
				fail(yield, fmt.Errorf("request %d takes %v, want at least 0 and an end within 292 years", q.ID, d))
				return
			}
			if i := q.Origin.Source; i < len(r.feeds) && r.feeds[i].followUp != nil {
				underWay[q.ID] = q
				heap.Push(&ends, sim.Request{ID: q.ID, Arrival: q.Arrival.Add(d)})
			}
			if !yield(q, nil) {
				return
			}
		}
	}
}

// answered is the end of a request whose last token is sampled then, by itself.
func answered(q sim.Request, end sim.Time) sim.Completion {
	c := sim.Completion{Request: q, Kind: sim.Finish, End: end, Output: q.Output}
	if q.MaxOutput > 0 {
		c.Output = min(c.Output, q.MaxOutput)
	}
	at := q.Path.Deliver(nil, []sim.Time{end})[0]
	c.Client = sim.Client{Send: q.Arrival.Add(-q.Path.Before()), First: at, Last: at, Done: at}
	if q.Path != nil {
		c.Client.Done = at.Add(q.Path.Tail)
	}
	return c
}
