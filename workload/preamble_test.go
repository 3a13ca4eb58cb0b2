package workload_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"servesim/sim"
	"servesim/workload"
)

// prompts are n requests, a second apart, of a preamble and 10 tokens more.
func prompts(p workload.Preamble, seed uint64, n, block int) workload.Workload {
	return workload.Workload{
		Seed: seed, Arrivals: workload.Limit{Arrivals: workload.Constant{Rate: 1}, Count: n}, PrefixBlock: block,
		Mix: []workload.Share{{Lengths: workload.Tokens{Prompt: 10, Output: 1}, Preamble: p}},
	}
}

// foundIn returns the tokens that DescribeSharing finds, and those that the
// engine does where each request is over before the next.
func foundIn(t *testing.T, w workload.Workload, engineBlock int) (described, engine int) {
	t.Helper()
	s, err := workload.DescribeSharing(w.Requests())
	if err != nil {
		t.Fatal(err)
	}
	r := busyReplica()
	r.BlockTokens, r.KVBlocks, r.MaxBatchTokens = engineBlock, 1<<21/engineBlock, 1<<20
	res, err := sim.Run(context.Background(), sim.Config{Replicas: []sim.Replica{r}, Classes: w.Classes()}, w.Requests())
	if err != nil || res.Completed != res.Arrived {
		t.Fatalf("%+v, error %v", res, err)
	}
	return int(math.Round(float64(s.BlockHits)*float64(s.Blocks))) * s.BlockTokens, int(res.PrefixHits)
}

// A walk over all leaves of a tree, twice: of each block of a level there are as
// many as nodes, all others are found. A block belongs to the level in which it
// ends. In blocks of any size, by count and by the engine, exactly.
func TestTreeHits(t *testing.T) {
	tree := workload.Tree{InTurn: true, Levels: []workload.Branches{{Tokens: 1000, Fanout: 2}, {Tokens: 130, Fanout: 3}, {Tokens: 5, Fanout: 1}, {Tokens: 777, Fanout: 4}}}
	const leaves, rounds = 24, 2
	for _, block := range []int{1, 7, 16, 64, 512} {
		total, distinct, end, nodes := 0, 0, 0, 1
		for _, l := range tree.Levels {
			nodes *= l.Fanout
			here := (end+l.Tokens)/block - end/block // blocks that end in the level
			total, distinct, end = total+leaves*rounds*here, distinct+nodes*here, end+l.Tokens
		}
		want := (total - distinct) * block
		described, engine := foundIn(t, prompts(tree, 1, leaves*rounds, block), block)
		if described != want || engine != want {
			t.Errorf("blocks of %d: %d tokens counted, %d found by the engine, want %d", block, described, engine, want)
		}
		if block == 512 { // the engine coarsens chains of 16 exactly, and splits chains of 512 as what is known allows
			if _, got := foundIn(t, prompts(tree, 1, leaves*rounds, 16), 512); got != want {
				t.Errorf("chains of 16 in an engine with blocks of 512: %d tokens, want %d", got, want)
			}
			if _, got := foundIn(t, prompts(tree, 1, leaves*rounds, 512), 16); got != want {
				t.Errorf("chains of 512 in an engine with blocks of 16: %d tokens, want %d", got, want)
			}
		}
	}
}

// System prompts in turn: the first of each group is computed, and every other
// one found but for the block that is not full.
func TestSystemPromptHits(t *testing.T) {
	for _, block := range []int{16, 512} {
		described, engine := foundIn(t, prompts(workload.SystemPrompts{Tokens: 1100, Groups: 7}, 1, 100, block), block)
		if want := (100 - 7) * (1100 / block * block); described != want || engine != want {
			t.Errorf("blocks of %d: %d tokens counted, %d found by the engine, want %d", block, described, engine, want)
		}
	}
}

// meanHits is the mean over seeds of what n prompts find, in blocks of 16, with
// its standard error.
func meanHits(t *testing.T, p workload.Preamble, n int) (mean, se float64) {
	t.Helper()
	const seeds = 200
	var squares float64
	for seed := range uint64(seeds) {
		s, err := workload.DescribeSharing(prompts(p, seed, n, 16).Requests())
		if err != nil {
			t.Fatal(err)
		}
		hits := float64(s.BlockHits) * float64(s.Blocks)
		mean, squares = mean+hits/seeds, squares+hits*hits/seeds
	}
	return mean, math.Sqrt((squares - mean*mean) / (seeds - 1))
}

// zipfLaw is the probability of ranks.
func zipfLaw(n int, skew float64) []float64 {
	p, sum := make([]float64, n), 0.0
	for k := range p {
		p[k] = math.Pow(float64(k+1), -skew)
		sum += p[k]
	}
	for k := range p {
		p[k] /= sum
	}
	return p
}

// seenBefore is how many of n draws are expected to have been drawn before, by
// the probabilities of what is drawn: n - Σ (1 - (1-p)ⁿ).
func seenBefore(n int, p map[string]float64) float64 {
	seen := float64(n)
	for _, p := range p {
		seen -= 1 - math.Pow(1-p, float64(n))
	}
	return seen
}

// Branches drawn with skew: what is found is what was drawn before, level by
// level.
func TestDrawnTreeHits(t *testing.T) {
	tree := workload.Tree{Levels: []workload.Branches{{Tokens: 64, Fanout: 5, Skew: 1.2}, {Tokens: 160, Fanout: 8}, {Tokens: 16, Fanout: 30, Skew: 0.7}}}
	const n = 120
	want := 0.0
	paths := map[string]float64{"": 1}
	for _, l := range tree.Levels {
		longer := map[string]float64{}
		for path, p := range paths {
			for k, q := range zipfLaw(l.Fanout, l.Skew) {
				longer[fmt.Sprint(path, k, "/")] = p * q
			}
		}
		paths = longer
		want += seenBefore(n, paths) * float64(l.Tokens/16)
	}
	mean, se := meanHits(t, tree, n)
	within(t, "blocks found", mean, want, se, 4)
	if !(se < 0.01*want) {
		t.Errorf("standard error %v of %v", se, want)
	}
}

// Passages in each order: what is found follows from the probabilities of ordered
// lists. The more alike prompts begin, the more.
func TestRetrievalHits(t *testing.T) {
	const pool, count, skew, n = 6, 3, 0.9, 60
	base := workload.Retrieval{Pool: pool, Skew: skew, Count: workload.Fixed(count), Tokens: workload.Fixed(32)}
	number := make([]int, pool) // of passages: their place by number
	all := base
	all.Count, all.Order = workload.Fixed(pool), workload.ByNumber
	for i, x := range all.Begin(1)(nil, 0, rand.New(workload.Stream(1, "", 0))) {
		number[x.ID] = i
	}
	law := zipfLaw(pool, skew)
	found := map[workload.PassageOrder]float64{}
	for _, order := range []workload.PassageOrder{workload.Shuffled, workload.Ranked, workload.ByNumber, workload.ByPopularity} {
		begin := [count]map[string]float64{{}, {}, {}} // the first passages, and their probability
		var draw func(list []int, p, left float64)
		draw = func(list []int, p, left float64) {
			if len(list) < count {
				for k, q := range law {
					if !slices.Contains(list, k) {
						draw(append(list[:len(list):len(list)], k), p*q/left, left-q)
					}
				}
				return
			}
			orders := [][]int{slices.Clone(list)}
			switch l := orders[0]; order {
			case workload.Shuffled:
				orders = [][]int{{l[0], l[1], l[2]}, {l[0], l[2], l[1]}, {l[1], l[0], l[2]}, {l[1], l[2], l[0]}, {l[2], l[0], l[1]}, {l[2], l[1], l[0]}}
			case workload.ByNumber:
				slices.SortFunc(l, func(a, b int) int { return number[a] - number[b] })
			case workload.ByPopularity:
				slices.Sort(l)
			}
			for _, l := range orders {
				for j := range count {
					begin[j][fmt.Sprint(l[:j+1])] += p / float64(len(orders))
				}
			}
		}
		draw(nil, 1, 1)
		want := 0.0
		for _, p := range begin {
			want += 2 * seenBefore(n, p)
		}
		p := base
		p.Order = order
		mean, se := meanHits(t, p, n)
		within(t, fmt.Sprintf("blocks found, order %q", order), mean, want, se, 4)
		found[order] = mean
	}
	if !(found[workload.Shuffled] < found[workload.Ranked] && found[workload.Ranked] < found[workload.ByPopularity] && found[workload.Shuffled] < found[workload.ByNumber]) {
		t.Errorf("found %v", found)
	}
}

// A topic brings its passages in its order: a question about a known topic finds
// all of them, if none is passed over.
func TestTopics(t *testing.T) {
	p := workload.Retrieval{Pool: 1 << 16, Count: workload.Fixed(5), Tokens: workload.Fixed(16), Topics: 20, TopicSkew: 1}
	const n = 100
	topics := map[string]float64{}
	for k, q := range zipfLaw(20, 1) {
		topics[fmt.Sprint(k)] = q
	}
	mean, se := meanHits(t, p, n)
	within(t, "blocks found", mean, 5*seenBefore(n, topics), se, 4)
	p.Miss = 0.5
	if less, _ := meanHits(t, p, n); !(less < 0.6*mean) {
		t.Errorf("%v blocks found where candidates are passed over, %v where not", less, mean)
	}
}

// A pool is used up without repeating a passage, whatever its skew.
func TestRetrievalUsesThePoolUp(t *testing.T) {
	for _, p := range []workload.Retrieval{
		{Pool: 200, Skew: 40, Count: workload.Fixed(300)},
		{Pool: 200, Skew: 40, Count: workload.Fixed(300), Topics: 3, Miss: 0.9},
		{Pool: 200, Skew: 1, Count: workload.Fixed(200), Topics: 3, Miss: 0.9, Order: workload.ByPopularity},
	} {
		p.Tokens = workload.Fixed(1)
		texts := p.Begin(1)(nil, 0, rand.New(workload.Stream(1, "", 0)))
		seen := map[uint64]bool{}
		for _, x := range texts {
			seen[x.ID] = true
		}
		if len(texts) != 200 || len(seen) != 200 {
			t.Errorf("%d passages, %d different", len(texts), len(seen))
		}
	}
}

// What stands behind an unshared text is not found.
func TestUnshared(t *testing.T) {
	system := workload.SystemPrompts{Tokens: 160}
	for want, p := range map[int]workload.Preamble{
		9 * 320: workload.Preambles{system, workload.SystemPrompts{Tokens: 160}, workload.Unshared(16)},
		9 * 160: workload.Preambles{system, workload.Unshared(16), system},
		0:       workload.Preambles{workload.Unshared(16), system, system},
	} {
		if got, engine := foundIn(t, prompts(p, 1, 10, 16), 16); got != want || engine != want {
			t.Errorf("%v: %d tokens counted, %d found, want %d", p, got, engine, want)
		}
	}
}

// Classes share what has one name, and nothing else.
func TestTextsOfClasses(t *testing.T) {
	mix := func(names ...string) workload.Workload {
		w := prompts(nil, 1, 40, 16)
		w.Mix = nil
		for i, name := range names {
			w.Mix = append(w.Mix, workload.Share{Class: sim.Class{Name: fmt.Sprint(i)}, Weight: 1, Texts: name, Lengths: workload.Tokens{Prompt: 10, Output: 1}, Preamble: workload.SystemPrompts{Tokens: 160}})
		}
		return w
	}
	for want, names := range map[int][]string{39 * 160: {"docs", "docs"}, 38 * 160: {"", ""}} {
		if got, _ := foundIn(t, mix(names...), 16); got != want {
			t.Errorf("%q: %d tokens found, want %d", names, got, want)
		}
	}
	merged := workload.Merged{Seed: 1, PrefixBlock: 16, Parts: []workload.Part{
		{Name: "a", Arrivals: prompts(nil, 1, 20, 16).Arrivals, Mix: mix("").Mix}, {Name: "b", Arrivals: prompts(nil, 1, 20, 16).Arrivals, Mix: mix("").Mix},
	}}
	s, err := workload.DescribeSharing(merged.Requests())
	if err != nil || s.Roots != 2 {
		t.Errorf("%d roots of two parts, error %v", s.Roots, err)
	}
}

func TestPreambleErrors(t *testing.T) {
	passages := workload.Retrieval{Pool: 10, Count: workload.Fixed(2), Tokens: workload.Fixed(5)}
	with := func(change func(*workload.Retrieval)) workload.Retrieval {
		p := passages
		change(&p)
		return p
	}
	for _, tt := range []struct {
		want string
		p    workload.Preamble
	}{
		{"SystemPrompts.Tokens is -1, want from 0 to 2147483647", workload.SystemPrompts{Tokens: -1}},
		{"SystemPrompts.Groups is -1, want from 0 to 16777216", workload.SystemPrompts{Groups: -1}},
		{"SystemPrompts.Skew is NaN, want a finite value, at least 0", workload.SystemPrompts{Skew: math.NaN()}},
		{"Unshared is -1, want from 0 to 2147483647", workload.Unshared(-1)},
		{"Preambles[1] is nil", workload.Preambles{passages, nil}},
		{"Preambles[0]: Unshared is -1, want from 0 to 2147483647", workload.Preambles{workload.Unshared(-1)}},
		{"Tree.Levels[0].Tokens is 0, want at least 1, and at most 2147483647 on a path", workload.Tree{Levels: []workload.Branches{{Fanout: 1}}}},
		{"Tree.Levels[0].Fanout is 0, want from 1 to 16777216", workload.Tree{Levels: []workload.Branches{{Tokens: 1}}}},
		{"Tree.Levels[0].Skew is -1, want a finite value, at least 0", workload.Tree{Levels: []workload.Branches{{Tokens: 1, Fanout: 1, Skew: -1}}}},
		{"Tree.Levels[1] makes 10000000000 leaves, want at most 2147483647 InTurn", workload.Tree{InTurn: true, Levels: []workload.Branches{{Tokens: 1, Fanout: 1e5}, {Tokens: 1, Fanout: 1e5}}}},
		{"Retrieval.Pool is 0, want from 1 to 16777216", workload.Retrieval{}},
		{"Retrieval.Topics is -1, want from 0 to 16777216", with(func(p *workload.Retrieval) { p.Topics = -1 })},
		{"Retrieval.Skew is -1, want a finite value, at least 0", with(func(p *workload.Retrieval) { p.Skew = -1 })},
		{"Retrieval.TopicSkew is -1, want a finite value, at least 0", with(func(p *workload.Retrieval) { p.TopicSkew = -1 })},
		{"Retrieval.Miss is 1, want a probability below 1", with(func(p *workload.Retrieval) { p.Miss = 1 })},
		{"Retrieval.Count is nil", with(func(p *workload.Retrieval) { p.Count = nil })},
		{"Retrieval.Tokens: Fixed is 0, want at least 1", with(func(p *workload.Retrieval) { p.Tokens = workload.Fixed(0) })},
		{`Retrieval.Order is "best", want "shuffled", "by-number", "by-popularity" or empty`, with(func(p *workload.Retrieval) { p.Order = "best" })},
	} {
		n, err := 0, error(nil)
		for _, err = range prompts(tt.p, 1, 1, 16).Requests() {
			n++
		}
		if n != 1 || fmt.Sprint(err) != "workload: Workload.Mix[0].Preamble: "+tt.want {
			t.Errorf("error %v, want %s", err, tt.want)
		}
	}
	w := prompts(nil, 1, 1, -1)
	for _, err := range w.Requests() {
		if fmt.Sprint(err) != "workload: Workload.PrefixBlock is -1, want from 0 to 2147483647" {
			t.Errorf("error %v", err)
		}
	}
	for want, x := range map[string]workload.Text{
		"workload: Workload.Mix[0].Preamble drew a text of -5 tokens from 0 for request 0":                             {Tokens: -5},
		"workload: Workload.Mix[0].Preamble makes a prompt of 2147483657 tokens of request 0, want at most 2147483647": {Tokens: math.MaxInt32},
	} {
		for _, err := range prompts(oneText(x), 1, 1, 16).Requests() {
			if fmt.Sprint(err) != want {
				t.Errorf("error %v, want %s", err, want)
			}
		}
	}
}

// oneText is a preamble of one's own.
type oneText workload.Text

func (x oneText) Begin(uint64) func([]workload.Text, int64, *rand.Rand) []workload.Text {
	return func(dst []workload.Text, _ int64, _ *rand.Rand) []workload.Text {
		return append(dst, workload.Text(x))
	}
}

// The same seed gives the same prompts, whatever was read of them before, and
// requests without a preamble are as they are without prefixes.
func TestPreambleIsReproducible(t *testing.T) {
	w := prompts(workload.RAGPulsePassages(), 3, 50, 16)
	want := collect(t, w.Requests())
	for range w.Requests() {
		break
	}
	if diff := cmp.Diff(want, collect(t, w.Requests())); diff != "" {
		t.Error(diff)
	}
	plain := collect(t, prompts(nil, 3, 50, 0).Requests())
	for i, q := range collect(t, prompts(nil, 3, 50, 4).Requests()) {
		if len(q.Prefix) != (10+1)/4 {
			t.Errorf("request %d has %d blocks", i, len(q.Prefix))
		}
		q.Prefix, q.PrefixBlock = nil, 0
		if diff := cmp.Diff(plain[i], q); diff != "" {
			t.Error(diff)
		}
	}
}

// passageFigures are of lists of passages: the shares whose first 1, 2, … 6 an
// earlier list began with, the number of passages, and the share of them that
// one list has.
func passageFigures(lists [][]uint64) (begins [6]float64, passages int, once float64) {
	uses := map[uint64]int{}
	for j := range begins {
		seen := map[string]bool{}
		for _, l := range lists {
			seen[fmt.Sprint(l[:j+1])] = true
			if j == 0 {
				for _, id := range l {
					uses[id]++
				}
			}
		}
		begins[j] = 1 - float64(len(seen))/float64(len(lists))
	}
	for _, n := range uses {
		if n == 1 {
			once++
		}
	}
	return begins, len(uses), once / float64(len(uses))
}

// The preset against the recording, of which it has the prompts with six
// passages. Passages drawn without topics begin alike far less often.
func TestRAGPulsePassages(t *testing.T) {
	rec := workload.RAGPulse{Path: shared(t, "recordings/ragpulse_0_trace.jsonl.gz")}
	var recorded [][]uint64
	tokens := 0
	for r, err := range rec.Rows() {
		if err != nil {
			t.Fatal(err)
		}
		var list []uint64
		sum := 0
		for _, p := range r.Parts {
			if p.Kind == workload.Passages {
				list, sum = append(list, p.ID), sum+p.Tokens
			}
		}
		if len(list) == 6 {
			recorded, tokens = append(recorded, list), tokens+sum
		}
	}
	generate := func(p workload.Retrieval) (lists [][]uint64, tokens int) {
		draw := p.Begin(1)
		for n := range len(recorded) {
			var list []uint64
			for _, x := range draw(nil, int64(n), rand.New(workload.Stream(1, "test", uint64(n)))) {
				list, tokens = append(list, x.ID), tokens+x.Tokens
			}
			lists = append(lists, list)
		}
		return lists, tokens
	}
	generated, generatedTokens := generate(workload.RAGPulsePassages())
	want, wantPassages, wantOnce := passageFigures(recorded)
	got, passages, once := passageFigures(generated)
	t.Logf("%d prompts: begin alike %.3f, generated %.3f; passages %d, %d; once %.3f, %.3f; tokens of a passage %.1f, %.1f",
		len(recorded), want, got, wantPassages, passages, wantOnce, once, float64(tokens)/6/float64(len(recorded)), float64(generatedTokens)/6/float64(len(recorded)))
	for j := range want {
		near(t, fmt.Sprintf("share that begins with the same %d", j+1), got[j], want[j], 0.03/want[j])
	}
	near(t, "passages", float64(passages), float64(wantPassages), 0.05)
	near(t, "passages in one prompt", once, wantOnce, 0.2)
	near(t, "tokens", float64(generatedTokens), float64(tokens), 0.06)
	apart := workload.RAGPulsePassages()
	apart.Topics = 0
	lists, _ := generate(apart)
	if got, _, _ := passageFigures(lists); !(got[1] < 0.1*want[1]) {
		t.Errorf("without topics %.3f begin alike", got)
	}
}

func ExampleRetrieval() {
	for _, order := range []workload.PassageOrder{workload.Shuffled, workload.Ranked, workload.ByPopularity} {
		passages := workload.RAGPulsePassages()
		passages.Order = order
		w := workload.Workload{
			Seed: 1, Arrivals: workload.Limit{Arrivals: workload.Poisson{Rate: 5}, Count: 5000}, PrefixBlock: 16,
			Mix: []workload.Share{{
				Lengths:  workload.Tokens{Prompt: 20, Output: 280},
				Preamble: workload.Preambles{workload.SystemPrompts{Tokens: 1024}, passages},
			}},
		}
		s, err := workload.DescribeSharing(w.Requests())
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%-15q %.0f %% of the tokens found\n", order, 100*s.TokenHits)
	}
	// Output:
	// "shuffled"      46 % of the tokens found
	// ""              55 % of the tokens found
	// "by-popularity" 60 % of the tokens found
}
