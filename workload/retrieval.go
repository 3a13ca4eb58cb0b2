package workload

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// Retrieval puts passages from a pool in front of a question. A prefix cache
// finds a passage only behind the same passages, so the order decides what
// prompts share.
//
// Without Topics each passage of a prompt is drawn from those that it does not
// have yet, in proportion to rank^-Skew of its popularity. With Topics each
// topic draws so a list of candidates, once; a question is about a topic, in
// proportion to rank^-TopicSkew, and takes its candidates in their order, each
// passed over with probability Miss. Lists that belong together are what
// recordings have; see [RAGPulsePassages].
type Retrieval struct {
	Pool int     `doc:"pool"`     // passages
	Skew float64 `doc:"skew,opt"` // of their popularity; 0 makes all equally popular
	// Count draws the number of passages of a prompt, at most Pool of which are
	// taken.
	Count Length `doc:"count"`
	// Tokens draws the length of a passage, once for each of the pool.
	Tokens Length `doc:"tokens"`

	Topics    int     `doc:"topics,opt"`
	TopicSkew float64 `doc:"topic_skew,opt"`
	Miss      float64 `doc:"miss,opt"` // below 1

	Order PassageOrder `doc:"order,opt"`
}

// PassageOrder says in which order passages stand in a prompt.
type PassageOrder string

// The orders.
const (
	Ranked       PassageOrder = ""              // as they were found
	Shuffled     PassageOrder = "shuffled"      // by chance, in each prompt anew
	ByNumber     PassageOrder = "by-number"     // as in the pool, in which popular ones stand anywhere
	ByPopularity PassageOrder = "by-popularity" // most popular first: equal beginnings are most frequent
)

// Validate reports the first invalid field.
func (p Retrieval) Validate() error {
	if p.Pool < 1 || p.Pool > maxRanks {
		return fmt.Errorf("Retrieval.Pool is %d, want from 1 to %d", p.Pool, maxRanks)
	}
	if p.Topics < 0 || p.Topics > maxRanks {
		return fmt.Errorf("Retrieval.Topics is %d, want from 0 to %d", p.Topics, maxRanks)
	}
	if err := checkNotNegative("Retrieval.Skew", p.Skew); err != nil {
		return err
	}
	if err := checkNotNegative("Retrieval.TopicSkew", p.TopicSkew); err != nil {
		return err
	}
	if !(p.Miss >= 0 && p.Miss < 1) {
		return fmt.Errorf("Retrieval.Miss is %v, want a probability below 1", p.Miss)
	}
	if err := validate("Retrieval.Count", p.Count); err != nil {
		return err
	}
	if err := validate("Retrieval.Tokens", p.Tokens); err != nil {
		return err
	}
	switch p.Order {
	case Ranked, Shuffled, ByNumber, ByPopularity:
		return nil
	}
	return fmt.Errorf("%s is %q, want %q, %q, %q or empty", "Retrieval.Order", p.Order, Shuffled, ByNumber, ByPopularity)
}

// Begin implements [Preamble].
func (p Retrieval) Begin(seed uint64) func(dst []Text, n int64, r *rand.Rand) []Text {
	d := &passages{
		Retrieval: p, popularity: newZipf(p.Pool, p.Skew), topics: newZipf(max(1, p.Topics), p.TopicSkew),
		lengths: newFamily(seed, "passages"), lists: newFamily(seed, "topics"),
	}
	d.length, d.list = rand.New(d.lengths), rand.New(d.lists)
	return d.draw
}

// passages draws those of one run.
type passages struct {
	Retrieval

	popularity, topics zipf
	lengths, lists     *family // of passages and topics
	length, list       *rand.Rand

	found, taken []int // ranks of passages: as found, and rising
}

func (d *passages) draw(dst []Text, _ int64, r *rand.Rand) []Text {
	count := min(d.Count.Draw(r), d.Pool)
	d.found, d.taken = d.found[:0], d.taken[:0]
	candidates := r
	if d.Topics > 0 {
		d.lists.rewind(uint64(d.topics.draw(r, nil)))
		candidates = d.list
	}
	for seen := 0; len(d.found) < count; seen++ {
		k := d.popularity.draw(candidates, d.taken)
		at, _ := slices.BinarySearch(d.taken, k)
		d.taken = slices.Insert(d.taken, at, k)
		// The last candidates of a pool are not passed over.
		if d.Topics == 0 || d.Miss == 0 || d.Pool-seen <= count-len(d.found) || r.Float64() >= d.Miss {
			d.found = append(d.found, k)
		}
	}
	switch d.Order {
	case Shuffled:
		r.Shuffle(len(d.found), func(i, j int) { d.found[i], d.found[j] = d.found[j], d.found[i] })
	case ByNumber:
		slices.SortFunc(d.found, func(a, b int) int {
			if mix(uint64(a)) < mix(uint64(b)) {
				return -1
			}
			return 1
		})
	case ByPopularity:
		slices.Sort(d.found)
	}
	for _, k := range d.found {
		d.lengths.rewind(uint64(k))
		dst = append(dst, Text{ID: uint64(k), Tokens: d.Tokens.Draw(d.length)})
	}
	return dst
}
