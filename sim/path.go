package sim

import (
	"fmt"
	"time"
)

// Path is the client's side of one request: the delays before it reaches the
// queue of the engine, and those between a token and its reader. The engine's
// own times do not depend on it. A client without a Path stands beside the
// engine.
//
//	send ─ NetworkIn ─ Gateway ─ Retrieval ─ Assembly ─► Arrival … token ─ Proxy ─ NetworkOut ─► client
type Path struct {
	NetworkIn time.Duration // from the client to the gateway
	Gateway   time.Duration // authentication, quotas, routing
	Retrieval time.Duration // passages that become part of the prompt
	Assembly  time.Duration // template and tokenisation

	Proxy      Proxy
	NetworkOut time.Duration // from the proxy to the client
	// Tail is what the client does behind its last token until it has the
	// answer: detokenisation, rendering, a check.
	Tail time.Duration
}

// Proxy holds tokens back and sends several at once. The zero value sends each
// at once. What is held when the answer ends is sent then.
type Proxy struct {
	// Tokens are sent when so many are held; 0 and 1 mean each.
	Tokens int
	// Every sends what is held at multiples of this time behind the first token,
	// which waits for the first of them too. 0 means no such clock.
	Every time.Duration
}

// Origin says where a request comes from, for those that react to its end and
// for reports. Numbers count from 0 and are free to use; the zero value is a
// request of its own.
type Origin struct {
	Source  int   // the workload that made it, where several are mixed
	Session int64 // a conversation, or one run of a workflow
	Turn    int   // its turn in the conversation
	Node    int   // its node in the workflow
}

// Client holds the instants of a request at its client.
type Client struct {
	Send  Time
	First Time // NoTime if it got no token, or if that is not known
	Last  Time // NoTime if it got no token
	Done  Time // Last and the tail behind it, or the end without a token
}

// faulty reports a delay that cannot be.
func (p *Path) faulty() bool {
	return p != nil && (min(p.NetworkIn, p.Gateway, p.Retrieval, p.Assembly, p.NetworkOut, p.Tail, p.Proxy.Every) < 0 || p.Proxy.Tokens < 0 ||
		max(p.NetworkIn, p.Gateway, p.Retrieval, p.Assembly, p.NetworkOut, p.Tail, p.Proxy.Every) > maxDelay)
}

// maxDelay keeps sums of times far from the end of time.
const maxDelay = 1000 * time.Hour

// Before returns the time from the client's send to the arrival at the queue.
func (p *Path) Before() time.Duration {
	if p == nil {
		return 0
	}
	return p.NetworkIn + p.Gateway + p.Retrieval + p.Assembly
}

// Deliver appends when the client has each token of an answer that the engine
// sampled at those instants, all of them. A nil Path delivers at once.
func (p *Path) Deliver(dst, sampled []Time) []Time {
	if p == nil {
		return append(dst, sampled...)
	}
	for from := 0; from < len(sampled); {
		to, at := p.Proxy.batch(sampled, from)
		for range to - from {
			dst = append(dst, at.Add(p.NetworkOut))
		}
		from = to
	}
	return dst
}

// batch returns the end of the run of tokens that the proxy sends together,
// from that one on, and when it sends them.
func (x Proxy) batch(sampled []Time, from int) (to int, at Time) {
	last := sampled[len(sampled)-1]
	if x.Tokens <= 1 && x.Every == 0 {
		return from + 1, sampled[from]
	}
	at = last
	if x.Every > 0 {
		at = min(at, x.tick(sampled[0], sampled[from]))
	}
	for to = from; to < len(sampled) && sampled[to] <= at; to++ {
		if x.Tokens > 1 && to-from+1 == x.Tokens {
			return to + 1, sampled[to]
		}
	}
	return to, at
}

// tick returns the first tick of the clock at or after an instant: the first
// token waits for one.
func (x Proxy) tick(first, t Time) Time {
	n := max(1, (t.Sub(first)+x.Every-1)/x.Every)
	return first.Add(n * x.Every)
}

// Client returns the instants at the client of a request that arrived at the
// queue then, whose first and last tokens were sampled at those instants. The
// first is not known from these alone where the proxy counts tokens.
func (p *Path) client(arrival, first, last, end Time) Client {
	c := Client{Send: arrival.Add(-p.Before()), First: NoTime, Last: NoTime, Done: end}
	if p == nil {
		p = &Path{}
	}
	if first == NoTime {
		c.Done = end.Add(p.NetworkOut + p.Tail)
		return c
	}
	c.Last = last.Add(p.NetworkOut)
	c.Done = max(c.Last.Add(p.Tail), end)
	switch {
	case first == last:
		c.First = c.Last
	case p.Proxy.Tokens > 1:
	case p.Proxy.Every > 0:
		c.First = min(last, p.Proxy.tick(first, first)).Add(p.NetworkOut)
	default:
		c.First = first.Add(p.NetworkOut)
	}
	return c
}

// String formats a path for an error or a log.
func (p *Path) String() string {
	if p == nil {
		return "no path"
	}
	return fmt.Sprintf("in %v, gateway %v, retrieval %v, assembly %v, proxy %d tokens or %v, out %v, tail %v",
		p.NetworkIn, p.Gateway, p.Retrieval, p.Assembly, p.Proxy.Tokens, p.Proxy.Every, p.NetworkOut, p.Tail)
}

// Path returns that of the request that e is about, or nil. It is valid during
// Observe only.
func (e Event) Path() *Path {
	if e.seq == nil {
		return nil
	}
	return e.seq.req.Path
}

// Origin returns that of the request that e is about. It is valid during Observe
// only.
func (e Event) Origin() Origin {
	if e.seq == nil {
		return Origin{}
	}
	return e.seq.req.Origin
}

// Client returns the instants of a request at its client, for Finish, Reject and
// Abort events. It is valid during Observe only. The first token behind a proxy
// that counts tokens is known with Config.TokenTimes.
func (e Event) Client() Client {
	s := e.seq
	if s == nil {
		return Client{Send: e.Timeline.Arrival, First: e.Timeline.FirstToken, Last: NoTime, Done: e.Time}
	}
	return s.client(e.Time)
}

// client returns the instants at the client of s, which ends now.
func (s *Sequence) client(now Time) Client {
	p := s.req.Path
	c := p.client(s.req.Arrival, s.timeline.FirstToken, s.lastToken, now)
	if c.First == NoTime && s.timeline.FirstToken != NoTime && len(s.times) > 0 {
		_, at := p.Proxy.batch(s.times, 0)
		c.First = at.Add(p.NetworkOut)
	}
	return c
}
