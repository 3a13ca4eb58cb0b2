package scheduler

import (
	"fmt"

	"servesim/sim"
	"servesim/sim/kv"
)

// PrefixHash routes requests whose prompts begin alike to the same replica:
// turns of a session, users of one document. It asks no cache, only the hashes
// of the prompt. A replica that leaves takes only its own requests elsewhere,
// and one that joins takes its share from all (rendezvous hashing, Thaler and
// Ravishankar, IEEE/ACM ToN 1998).
//
// A request without hashes goes by its ID, anywhere.
type PrefixHash struct {
	// Blocks is how many leading blocks name the replica, or as many as the
	// prompt has. 0 means 1. Where every prompt begins with the same system
	// prompt, it must reach beyond that.
	Blocks int
	// Ahead is how many requests, waiting, running and coming, a replica may
	// have beyond the one with the fewest; a request for one with more goes to
	// its next choice (bounded loads, Mirrokni et al., SODA 2018). 0 means no
	// limit.
	Ahead int
}

// Route implements sim.Router.
func (h PrefixHash) Route(_ sim.Time, q sim.Query, loads []sim.Load) int {
	if h.Blocks < 0 {
		panic(fmt.Sprintf("scheduler: PrefixHash.Blocks is %d", h.Blocks))
	}
	limit := mostRequests("PrefixHash", loads, h.Ahead)
	key := [2]int{h.key(&q)}
	best, most := -1, kv.Hash(0)
	for i := range loads {
		key[1] = loads[i].Replica
		if w := kv.HashBlock(0, 1, key[:], ""); requestsOf(&loads[i]) <= limit && (best < 0 || w > most) {
			best, most = i, w
		}
	}
	return best
}

// key names what the request begins with. The hash of a block covers those
// before it.
func (h PrefixHash) key(q *sim.Query) int {
	if len(q.Prefix) == 0 {
		return q.ID
	}
	return int(q.Prefix[min(max(h.Blocks, 1), len(q.Prefix))-1])
}
