package kv

// HitRate is the share of prompt tokens found in the cache, over the most
// recent requests. The caller adds each sequence once, at its first admission:
// a sequence that finds its own blocks after an eviction would count twice.
// The zero HitRate covers all requests.
type HitRate struct {
	Window int // requests; 0 = all

	recent []observation // a ring
	first  int           // index of the oldest
	n      int           // number of observations in the ring
	total  observation
}

type observation struct{ requests, queried, hits int }

// Add counts so many requests, their prompt tokens and those of them that were
// found. Whole observations leave the window, the oldest first, until it holds
// at most Window requests; the last one stays even if it exceeds the window.
func (r *HitRate) Add(requests, queried, hits int) {
	r.total.add(requests, queried, hits)
	if r.Window == 0 {
		return
	}
	if r.n == len(r.recent) {
		r.grow()
	}
	r.recent[(r.first+r.n)%len(r.recent)] = observation{requests, queried, hits}
	r.n++
	for r.n > 1 && r.total.requests > r.Window {
		o := r.recent[r.first]
		r.total.add(-o.requests, -o.queried, -o.hits)
		r.first = (r.first + 1) % len(r.recent)
		r.n--
	}
}

func (o *observation) add(requests, queried, hits int) {
	o.requests += requests
	o.queried += queried
	o.hits += hits
}

func (r *HitRate) grow() {
	ring := make([]observation, max(8, 2*len(r.recent)))
	k := copy(ring, r.recent[r.first:])
	copy(ring[k:], r.recent[:r.first])
	r.recent, r.first = ring, 0
}

// Requests returns the number of requests in the window.
func (r *HitRate) Requests() int { return r.total.requests }

// Queried returns their prompt tokens.
func (r *HitRate) Queried() int { return r.total.queried }

// Hits returns those of them that were found.
func (r *HitRate) Hits() int { return r.total.hits }

// Rate returns Hits / Queried, in [0, 1], and 0 if nothing was queried, as vLLM
// reports it.
func (r *HitRate) Rate() float64 {
	if r.total.queried == 0 {
		return 0
	}
	return float64(r.total.hits) / float64(r.total.queried)
}
