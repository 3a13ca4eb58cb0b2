package scheduler_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/scheduler"
	"servesim/sim"
)

// 1,000 tokens per second, a bucket of 500: one token per ms. Steps take 1 ms.
func TestTokenBucket(t *testing.T) {
	request := func(id int, arrival float64, prompt int) sim.Request {
		return sim.Request{ID: id, Arrival: at(arrival), Prompt: prompt, Output: 1}
	}
	giveUp := request(2, 0, 300)
	giveUp.Patience.First = 150 * ms
	answer := request(2, 0, 100)
	answer.MaxOutput = 401
	for _, c := range []struct {
		name     string
		bucket   scheduler.TokenBucket
		requests []sim.Request
		want     map[int]string
	}{
		{"deferred until the tokens are there", scheduler.TokenBucket{Rate: 1000, Burst: 500},
			// 100 are left for request 2.
			[]sim.Request{request(1, 0, 400), request(2, 0, 300)},
			map[int]string{1: "queued 0s", 2: "queued 200ms"}},
		{"a small one waits behind a big one", scheduler.TokenBucket{Rate: 1000, Burst: 500},
			// 150 tokens are there at 50 ms, all set aside.
			[]sim.Request{request(1, 0, 400), request(2, 0, 300), request(3, 50, 10), request(4, 205, 10)},
			map[int]string{1: "queued 0s", 2: "queued 200ms", 3: "queued 210ms", 4: "queued 220ms"}},
		{"fills up to the burst", scheduler.TokenBucket{Rate: 1000, Burst: 500},
			// Full at 500 ms; what comes after that is lost.
			[]sim.Request{request(1, 0, 500), request(2, 900, 500), request(3, 900, 1)},
			map[int]string{1: "queued 0s", 2: "queued 900ms", 3: "queued 901ms"}},
		{"never fits", scheduler.TokenBucket{Rate: 1000, Burst: 500},
			[]sim.Request{request(1, 0, 501), request(2, 0, 500)},
			map[int]string{1: "rate_limited 0s", 2: "queued 0s"}},
		{"would wait too long, and takes nothing", scheduler.TokenBucket{Rate: 1000, Burst: 500, MaxWait: 200 * ms},
			[]sim.Request{request(1, 0, 400), request(2, 0, 301), request(3, 0, 300), request(4, 0, 1)},
			map[int]string{1: "queued 0s", 2: "rate_limited 0s", 3: "queued 200ms", 4: "rate_limited 0s"}},
		{"nobody is deferred", scheduler.TokenBucket{Rate: 1000, Burst: 500, MaxWait: -1},
			[]sim.Request{request(1, 0, 400), request(2, 0, 101), request(3, 0, 100), request(4, 1, 1), request(5, 1, 1)},
			map[int]string{1: "queued 0s", 2: "rate_limited 0s", 3: "queued 0s", 4: "queued 1ms", 5: "rate_limited 1ms"}},
		{"the burst is a second by default", scheduler.TokenBucket{Rate: 1000},
			[]sim.Request{request(1, 0, 1001), request(2, 0, 1000), request(3, 0, 1)},
			map[int]string{1: "rate_limited 0s", 2: "queued 0s", 3: "queued 1ms"}},
		{"no limit", scheduler.TokenBucket{Burst: 1, MaxWait: -1},
			[]sim.Request{request(1, 0, 1000), request(2, 0, 1000)},
			map[int]string{1: "queued 0s", 2: "queued 0s"}},
		{"the output asked for counts", scheduler.TokenBucket{Rate: 1000, Burst: 500},
			[]sim.Request{request(1, 0, 400), answer},
			map[int]string{1: "queued 0s", 2: "rate_limited 0s"}},
		{"a cost of its own", scheduler.TokenBucket{Rate: 2, Burst: 1, Cost: func(sim.Query) int { return 1 }},
			[]sim.Request{request(1, 0, 400), request(2, 0, 300), request(3, 0, 1)},
			map[int]string{1: "queued 0s", 2: "queued 500ms", 3: "queued 1s"}},
		{"what is free waits in line all the same", scheduler.TokenBucket{Rate: 1000, Burst: 500, Cost: func(q sim.Query) int { return q.Prompt - 1 }},
			[]sim.Request{request(1, 0, 1), request(2, 0, 501), request(3, 0, 1), request(4, 0, 101), request(5, 20, 1), request(6, 101, 1)},
			map[int]string{1: "queued 0s", 2: "queued 0s", 3: "queued 0s", 4: "queued 100ms", 5: "queued 100ms", 6: "queued 101ms"}},
		{"the tokens of one that gives up are spent", scheduler.TokenBucket{Rate: 1000, Burst: 500},
			[]sim.Request{request(1, 0, 400), giveUp, request(3, 160, 10)},
			map[int]string{1: "queued 0s", 2: "aborted 150ms", 3: "queued 210ms"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := sim.Config{Replicas: []sim.Replica{{Scheduler: scheduler.ChunkedPrefill{}, CostModel: flat}}, Admission: &c.bucket}
			if d := cmp.Diff(c.want, atDoor(t, cfg, c.requests...)); d != "" {
				t.Errorf("front door (-want +got):\n%s", d)
			}
		})
	}
}

// A refused request that its client sends again under the same id is charged
// like any other. 500 tokens a time, one per ms.
func TestTokenBucketRetries(t *testing.T) {
	cfg := sim.Config{
		Replicas:  []sim.Replica{{Scheduler: scheduler.ChunkedPrefill{}, CostModel: flat}},
		Admission: &scheduler.TokenBucket{Rate: 1000, Burst: 500, MaxWait: -1},
		FollowUp: func(c sim.Completion) []sim.Request {
			if c.Kind != sim.Reject || c.End > at(2000) {
				return nil
			}
			r := c.Request
			r.Arrival = c.End.Add(200 * ms)
			return []sim.Request{r}
		},
	}
	// Request 2 is refused at 0, 200 and 400 ms and finds 600 - 500 at 600 ms;
	// request 3, at 1, 201, … ms, finds 500 at 1,101 ms at the earliest.
	got := atDoor(t, cfg, sim.Request{ID: 1, Prompt: 500, Output: 1}, sim.Request{ID: 2, Prompt: 500, Output: 1},
		sim.Request{ID: 3, Arrival: at(1), Prompt: 500, Output: 1})
	want := map[int]string{1: "queued 0s", 2: "queued 600ms", 3: "queued 1.201s"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("front door (-want +got):\n%s", d)
	}
}

// A third of a second is no whole number of nanoseconds; instants are rounded
// up, and the rounding does not add up.
func TestTokenBucketDoesNotDrift(t *testing.T) {
	b := &scheduler.TokenBucket{Rate: 3, Burst: 1}
	for k := range 300_001 {
		got := b.Admit(0, sim.Query{Prompt: 1}, nil).Until
		want, ok := map[int]sim.Time{0: 0, 1: 333_333_334, 2: 666_666_667, 3: 1_000_000_000, 299_999: 99_999_666_666_667, 300_000: 100_000_000_000_000}[k]
		if ok && got != want {
			t.Errorf("request %d is deferred until %d, want %d", k, got, want)
		}
	}
}

// Far from the start, and with the largest rate, nothing overflows; turns that
// come after the end of time are refused.
func TestTokenBucketAtTheEdges(t *testing.T) {
	b := &scheduler.TokenBucket{Rate: math.MaxInt64, Burst: math.MaxInt64, Cost: func(sim.Query) int { return math.MaxInt64 }}
	for i, want := range []sim.Time{0, at(1000), at(2000)} {
		if got := b.Admit(0, sim.Query{}, nil); got != (sim.Decision{Until: want}) {
			t.Errorf("request %d: %+v, want Until %d", i, got, want)
		}
	}
	// 100 years a request.
	const century = 100 * 365 * 24 * 3600
	b = &scheduler.TokenBucket{Rate: 1, Burst: century}
	for i, want := range []sim.Decision{{}, {Until: century * sim.Time(time.Second)}, {Reject: "rate_limited"}, {Reject: "rate_limited"}} {
		if got := b.Admit(0, sim.Query{Prompt: century}, nil); got != want {
			t.Errorf("request %d: %+v, want %+v", i, got, want)
		}
	}
}

// A bucket with a queue before it, filled nanosecond by nanosecond, lets the
// same requests in at the same instants. It overflows only while nobody waits.
func TestTokenBucketIsAQueueBeforeABucket(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		rate, burst := 1+rng.IntN(2e9), 1+rng.IntN(40) // up to 2 tokens per ns
		b := &scheduler.TokenBucket{Rate: rate, Burst: burst}
		level := burst * 1e9
		type client struct {
			cost int
			turn sim.Time
		}
		var line []client
		let := func(now sim.Time) {
			for len(line) > 0 && level >= line[0].cost*1e9 {
				if line[0].turn != now {
					t.Fatalf("rate %d, burst %d: a turn at %d, want %d", rate, burst, line[0].turn, now)
				}
				level -= line[0].cost * 1e9
				line = line[1:]
			}
			if len(line) > 0 && line[0].turn <= now {
				t.Fatalf("rate %d, burst %d: a turn at %d, want later than %d", rate, burst, line[0].turn, now)
			}
		}
		for now := range sim.Time(400) {
			let(now)
			if len(line) == 0 {
				level = min(level, burst*1e9)
			}
			for now < 200 && rng.IntN(4) == 0 {
				c := client{cost: 1 + rng.IntN(burst), turn: now}
				d := b.Admit(now, sim.Query{Arrival: now, Prompt: c.cost}, nil)
				if d.Reject != "" {
					t.Fatalf("rate %d, burst %d: %q", rate, burst, d.Reject)
				}
				if d.Until != 0 {
					c.turn = d.Until
				}
				line = append(line, c)
				let(now)
			}
			level += rate
		}
	}
}

// One token per ms. Request 3 is small, and waits until request 2 has had its
// turn; request 4 is larger than the bucket.
func ExampleTokenBucket() {
	frontDoor(&scheduler.TokenBucket{Rate: 1000, Burst: 500},
		sim.Request{ID: 1, Prompt: 400, Output: 1},
		sim.Request{ID: 2, Prompt: 300, Output: 1},
		sim.Request{ID: 3, Arrival: at(50), Prompt: 10, Output: 1},
		sim.Request{ID: 4, Arrival: at(60), Prompt: 501, Output: 1})
	// Output:
	// 1 queued at 0s
	// 4 refused at 60ms rate_limited
	// 2 queued at 200ms
	// 3 queued at 210ms
}
