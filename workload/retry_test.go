package workload_test

import (
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/scheduler"
	"servesim/sim"
	"servesim/sim/kv"
	"servesim/sim/metrics"
	"servesim/workload"
)

// ended is an attempt that came to nothing after it arrived at 5 s.
func ended(kind sim.Kind, reason string, attempt int, after time.Duration) sim.Completion {
	c := sim.Completion{Kind: kind, Reason: reason, End: at(5*time.Second + after), Request: sim.Request{ID: 7, Arrival: at(5 * time.Second)}}
	if attempt > 0 {
		c.Request.Attempt, c.Request.First = attempt, at(2*time.Second)
	}
	return c
}

func at(d time.Duration) sim.Time { return sim.Time(d) }

// attempts returns the times between a request that is always refused at once
// and its retries.
func attempts(r workload.Retry, id int) (waits []time.Duration) {
	c := sim.Completion{Kind: sim.Reject, Reason: "busy", Request: sim.Request{ID: id}}
	for {
		next := r.FollowUp(c)
		if len(next) != 1 {
			return waits
		}
		waits = append(waits, next[0].Arrival.Sub(c.End))
		c.Request, c.End = next[0], next[0].Arrival
	}
}

func TestRetryBackoff(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name  string
		retry workload.Retry
		want  []time.Duration
	}{
		{"zero value", workload.Retry{}, nil},
		{"once", workload.Retry{Attempts: 1, Backoff: ms}, nil},
		{"at once", workload.Retry{Attempts: 4}, []time.Duration{0, 0, 0}},
		{"doubling", workload.Retry{Attempts: 5, Backoff: 100 * ms}, []time.Duration{100 * ms, 200 * ms, 400 * ms, 800 * ms}},
		{"constant", workload.Retry{Attempts: 4, Backoff: 100 * ms, Factor: 1}, []time.Duration{100 * ms, 100 * ms, 100 * ms}},
		{"slowly", workload.Retry{Attempts: 4, Backoff: 100 * ms, Factor: 1.5}, []time.Duration{100 * ms, 150 * ms, 225 * ms}},
		{"limited", workload.Retry{Attempts: 5, Backoff: 100 * ms, Factor: 3, Max: 500 * ms}, []time.Duration{100 * ms, 300 * ms, 500 * ms, 500 * ms}},
		{"limited from the start", workload.Retry{Attempts: 3, Backoff: 100 * ms, Max: 70 * ms}, []time.Duration{70 * ms, 70 * ms}},
		{"half a nanosecond", workload.Retry{Attempts: 4, Backoff: 1, Factor: 1.5}, []time.Duration{1, 2, 2}}, // 1, 1.5, 2.25
		// Sums of 100, 300 and 700 ms.
		{"within", workload.Retry{Attempts: 9, Backoff: 100 * ms, Within: 300 * ms}, []time.Duration{100 * ms, 200 * ms}},
		{"just not within", workload.Retry{Attempts: 9, Backoff: 100 * ms, Within: 300*ms - 1}, []time.Duration{100 * ms}},
	} {
		if d := cmp.Diff(c.want, attempts(c.retry, 1)); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, d)
		}
	}
}

// A retry past the end of time is not sent.
func TestRetryAtTheEndOfTime(t *testing.T) {
	r := workload.Retry{Attempts: 1000, Backoff: 10}
	c := sim.Completion{Kind: sim.Abort}
	for left, want := range map[sim.Time]int{0: 0, 9: 0, 10: 0, 11: 1} {
		c.End = sim.Never - left
		if got := len(r.FollowUp(c)); got != want {
			t.Errorf("%d retries %d ns before the end of time, want %d", got, int64(left), want)
		}
	}
	for _, r := range []workload.Retry{{Attempts: 1000, Backoff: 10, Jitter: 1}, {Attempts: 1000, Backoff: math.MaxInt64, Factor: math.MaxFloat64, Jitter: 0.1}} {
		waits := attempts(r, 3)
		sum := time.Duration(0)
		for _, w := range waits {
			if sum += w; sum < 0 || w < 0 {
				t.Fatalf("%+v: waits %v", r, waits)
			}
		}
		if len(waits) > 70 {
			t.Errorf("%+v: %d retries before the end of time", r, len(waits))
		}
	}
}

// A retry is its request but for the fields that say when and which it is.
func TestRetryKeepsTheRequest(t *testing.T) {
	q := sim.Request{ID: 3, Arrival: at(time.Second), Prompt: 10, Output: 20, MaxOutput: 30, Hint: 40, Class: 2, Deadline: at(time.Minute),
		Prefix: []kv.Hash{1}, PrefixBlock: 16, NoPrefixRead: true, Patience: sim.Patience{First: time.Second, Total: time.Hour}}
	r := workload.Retry{Attempts: 3, Backoff: time.Second}
	want := q
	want.Attempt, want.First, want.Arrival = 1, at(time.Second), at(4*time.Second)
	got := r.FollowUp(sim.Completion{Kind: sim.Abort, Request: q, End: at(3 * time.Second)})
	if d := cmp.Diff([]sim.Request{want}, got); d != "" {
		t.Errorf("first retry (-want +got):\n%s", d)
	}
	got = r.FollowUp(sim.Completion{Kind: sim.Reject, Request: want, End: at(5 * time.Second)})
	want.Attempt, want.Arrival = 2, at(7*time.Second)
	if d := cmp.Diff([]sim.Request{want}, got); d != "" {
		t.Errorf("second retry (-want +got):\n%s", d)
	}
	if got = r.FollowUp(sim.Completion{Kind: sim.Abort, Request: want, End: at(9 * time.Second)}); len(got) > 0 {
		t.Errorf("a fourth attempt of 3: %+v", got)
	}
}

func TestRetryOn(t *testing.T) {
	everything := func(sim.Completion) bool { return true }
	for _, c := range []struct {
		kind   sim.Kind
		reason string
		want   [4]int // with On nil, Refused, TimedOut, everything
	}{
		{sim.Reject, scheduler.RejectQueueFull, [4]int{1, 1, 0, 1}},
		{sim.Reject, scheduler.RejectRateLimited, [4]int{1, 1, 0, 1}},
		{sim.Reject, sim.RejectNoRoute, [4]int{1, 1, 0, 1}},
		{sim.Abort, "", [4]int{1, 0, 1, 1}},
		{sim.Finish, sim.FinishStop, [4]int{}},
		{sim.Finish, sim.FinishLength, [4]int{}},
		{sim.Reject, sim.RejectEmptyPrompt, [4]int{3: 1}},
		{sim.Reject, sim.RejectZeroOutput, [4]int{3: 1}},
		{sim.Reject, sim.RejectDuplicateID, [4]int{3: 1}},
		{sim.Reject, sim.RejectUnknownClass, [4]int{3: 1}},
		{sim.Reject, sim.RejectPrefixBlock, [4]int{3: 1}},
		{sim.Reject, sim.RejectBadField, [4]int{3: 1}},
		{sim.Reject, sim.RejectModelLen, [4]int{3: 1}},
		{sim.Reject, sim.RejectKVCapacity, [4]int{3: 1}},
		{sim.Reject, sim.RejectOutOfKV, [4]int{3: 1}},
	} {
		var got [4]int
		for i, on := range []func(sim.Completion) bool{nil, workload.Refused, workload.TimedOut, everything} {
			got[i] = len(workload.Retry{Attempts: 2, On: on}.FollowUp(ended(c.kind, c.reason, 0, 0)))
		}
		if got != c.want {
			t.Errorf("%v %s: retries %v, want %v", c.kind, c.reason, got, c.want)
		}
	}
}

// The request that came at 2 s first and at 5 s again ended at 6 s; the next
// retry would come at 6.25 s.
func TestRetryStopsAtTheDeadline(t *testing.T) {
	r := workload.Retry{Attempts: 9, Backoff: 125 * time.Millisecond}
	for _, c := range []struct {
		within, deadline time.Duration
		want             int
	}{
		{0, 0, 1},
		{4250 * time.Millisecond, 0, 1},
		{4250*time.Millisecond - 1, 0, 0},
		{0, 6250 * time.Millisecond, 1},
		{0, 6250*time.Millisecond - 1, 0},
		{time.Hour, time.Second, 0},
	} {
		r.Within = c.within
		end := ended(sim.Abort, "", 1, time.Second)
		end.Request.Deadline = at(c.deadline)
		if got := r.FollowUp(end); len(got) != c.want {
			t.Errorf("within %v, deadline %v: %+v, want %d retries", c.within, c.deadline, got, c.want)
		}
	}
}

// Jitter takes off up to its part, evenly, and depends on seed, id and attempt
// alone.
func TestRetryJitter(t *testing.T) {
	const n = 20_000
	r := workload.Retry{Seed: 9, Attempts: 3, Backoff: time.Second, Factor: 1, Jitter: 0.25}
	var first, second []float64
	for id := range n {
		w := attempts(r, id)
		first, second = append(first, w[0].Seconds()), append(second, w[1].Seconds())
	}
	covariance := 0.0
	for i := range n {
		covariance += (first[i] - 0.875) * (second[i] - 0.875) / n
	}
	for _, x := range [][]float64{first, second} {
		mean := 0.0
		for _, v := range x {
			mean += v / n
		}
		// Uniform over [0.75, 1]: variance 0.25²/12.
		within(t, "mean backoff", mean, 0.875, math.Sqrt(0.0625/12/n), 4)
		if low, high := slices.Min(x), slices.Max(x); low < 0.75 || low > 0.7501 || high > 1 || high < 0.9999 {
			t.Errorf("backoffs from %v to %v s, want 0.75 to 1", low, high)
		}
	}
	within(t, "covariance of two backoffs", covariance, 0, 0.0625/12/math.Sqrt(n), 4)

	later := ended(sim.Abort, "", 0, time.Second)
	early := later
	later.Serial, later.Output, later.End = 99, 4, at(time.Hour)
	a, b := r.FollowUp(early)[0], r.FollowUp(later)[0]
	if a.Arrival.Sub(early.End) != b.Arrival.Sub(later.End) {
		t.Error("the backoff depends on what became of the attempt")
	}
	other := r
	other.Seed = 10
	if slices.Equal(attempts(r, 1), attempts(other, 1)) || slices.Equal(attempts(r, 1), attempts(r, 2)) {
		t.Error("the backoff is the same for another seed, or another request")
	}
	// Pinned: compared runs must stay comparable.
	if got, want := attempts(workload.Retry{Seed: 1, Attempts: 4, Backoff: time.Second, Jitter: 1}, 42), []time.Duration{251786321, 983293773, 2130241332}; !slices.Equal(got, want) {
		t.Errorf("backoffs of request 42 with seed 1: %v, want %v", got, want)
	}
}

func TestRetryErrors(t *testing.T) {
	for _, c := range []struct {
		retry workload.Retry
		want  string
	}{
		{workload.Retry{Attempts: -1}, "Retry.Attempts is -1, want at least 0"},
		{workload.Retry{Backoff: -2}, "Retry.Backoff is -2ns, want at least 0"},
		{workload.Retry{Max: -3}, "Retry.Max is -3ns, want at least 0"},
		{workload.Retry{Within: -4}, "Retry.Within is -4ns, want at least 0"},
		{workload.Retry{Factor: 0.5}, "Retry.Factor is 0.5, want 0 or a finite value, at least 1"},
		{workload.Retry{Factor: math.NaN()}, "Retry.Factor is NaN, want 0 or a finite value, at least 1"},
		{workload.Retry{Factor: math.Inf(1)}, "Retry.Factor is +Inf, want 0 or a finite value, at least 1"},
		{workload.Retry{Jitter: -0.1}, "Retry.Jitter is -0.1, want a part from 0 to 1"},
		{workload.Retry{Jitter: 1.1}, "Retry.Jitter is 1.1, want a part from 0 to 1"},
		{workload.Retry{Jitter: math.NaN()}, "Retry.Jitter is NaN, want a part from 0 to 1"},
	} {
		if got := errText(c.retry.Validate()); got != c.want {
			t.Errorf("error %q, want %q", got, c.want)
		}
		func() {
			defer func() {
				if p := recover(); p != "workload: "+c.want {
					t.Errorf("FollowUp panics with %v, want %q", p, c.want)
				}
			}()
			c.retry.FollowUp(sim.Completion{})
		}()
	}
	if err := (workload.Retry{Attempts: 3, Backoff: 1, Max: 1, Factor: 1, Jitter: 1, Within: 1}).Validate(); err != nil {
		t.Error(err)
	}
}

// The first function that has an answer gives it.
func TestFollowUps(t *testing.T) {
	var asked []string
	origin := func(name string, id int) func(sim.Completion) []sim.Request {
		return func(c sim.Completion) []sim.Request {
			asked = append(asked, name)
			if c.Request.ID == id {
				return []sim.Request{{ID: 10 * id}, {ID: 10*id + 1}}
			}
			return nil
		}
	}
	f := workload.FollowUps(nil, origin("one", 1), origin("two", 2), nil, origin("also two", 2))
	for _, c := range []struct {
		id    int
		asked []string
		want  []int
	}{
		{1, []string{"one"}, []int{10, 11}},
		{2, []string{"one", "two"}, []int{20, 21}},
		{3, []string{"one", "two", "also two"}, nil},
	} {
		asked = nil
		var got []int
		for _, q := range f(sim.Completion{Request: sim.Request{ID: c.id}}) {
			got = append(got, q.ID)
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("request %d: follow-ups (-want +got):\n%s", c.id, d)
		}
		if d := cmp.Diff(c.asked, asked); d != "" {
			t.Errorf("request %d: asked (-want +got):\n%s", c.id, d)
		}
	}
	if got := workload.FollowUps()(sim.Completion{}); got != nil {
		t.Errorf("nobody sends %v", got)
	}
}

// chat is a deployment that completes 12.5 requests a second and gets 14, from
// clients that wait two seconds for a first token.
func chat() (sim.Config, iter.Seq2[sim.Request, error]) {
	w := workload.Workload{
		Seed:     1,
		Arrivals: workload.Limit{Arrivals: workload.Poisson{Rate: 14}, Duration: time.Minute},
		Mix: []workload.Share{{Class: sim.Class{TTFT: 2 * time.Second}, Lengths: workload.Tokens{Prompt: 500, Output: 50},
			Patience: sim.Patience{First: 2 * time.Second}}},
	}
	cost := sim.CostFunc(func(b sim.Batch) time.Duration {
		return 10*time.Millisecond + time.Duration(b.PrefillTokens())*100*time.Microsecond + time.Duration(b.Decodes)*300*time.Microsecond
	})
	return sim.Config{Classes: w.Classes(), Replicas: []sim.Replica{{Scheduler: scheduler.ChunkedPrefill{}, CostModel: cost, MaxSeqs: 32, MaxBatchTokens: 512}}}, w.Requests()
}

// A little overload, with and without retries and a queue limit. Retries of a
// prompt that was computed in vain feed the overload; a queue limit takes most
// of the harm away. However it goes, the counts add up.
func TestRetryStorm(t *testing.T) {
	storm := func(attempts, limit int) (metrics.Report, sim.Result, string) {
		cfg, requests := chat()
		retry := workload.Retry{Seed: 1, Attempts: attempts, Backoff: 500 * time.Millisecond, Max: 8 * time.Second, Jitter: 0.25}
		var log strings.Builder
		counts := map[int]int{}
		cfg.FollowUp = workload.FollowUps(retry.FollowUp, func(c sim.Completion) []sim.Request {
			// Nobody tries again: it was the last attempt, or the answer.
			if c.Kind != sim.Finish && c.Request.Attempt != attempts-1 {
				t.Errorf("request %d gave up after attempt %d of %d", c.Request.ID, c.Request.Attempt+1, attempts)
			}
			if counts[c.Request.ID] != c.Request.Attempt+1 {
				t.Errorf("request %d ends at attempt %d after %d", c.Request.ID, c.Request.Attempt+1, counts[c.Request.ID])
			}
			return nil
		})
		cfg.Admission = scheduler.QueueLimit{Waiting: limit}
		c, err := metrics.New(cfg, metrics.Options{})
		if err != nil {
			t.Fatal(err)
		}
		cfg.Observers = []sim.Observer{c, sim.ObserverFunc(func(e sim.Event) {
			fmt.Fprintln(&log, e)
			if e.Kind != sim.Arrive {
				return
			}
			if n, _ := e.Attempt(); n != counts[e.ID] {
				t.Errorf("request %d comes with attempt %d after %d", e.ID, n, counts[e.ID])
			}
			counts[e.ID]++
		})}
		result, err := sim.Run(context.Background(), cfg, requests)
		if err != nil {
			t.Fatal(err)
		}
		r := c.Report()
		if len(r.Findings) > 0 {
			t.Errorf("findings %q", r.Findings)
		}
		if int(r.Arrived) != len(counts) {
			t.Errorf("%d requests arrived, %d reported", len(counts), r.Arrived)
		}
		return r, result, log.String()
	}
	type goodput struct{ met, attempts int64 }
	got := map[[2]int]goodput{}
	var arrived int64
	for _, attempts := range []int{1, 4} {
		for _, limit := range []int{0, 16} {
			r, result, log := storm(attempts, limit)
			got[[2]int{attempts, limit}] = goodput{r.Met, r.Attempts}
			type counts struct{ Attempts, Completed, Rejected, Aborted, Unfinished, Failed int64 }
			want := counts{result.Arrived, result.Completed, result.Rejected, result.Aborted, 0, r.Arrived - result.Completed}
			if d := cmp.Diff(want, counts{r.Attempts, r.Completed, r.Rejected, r.Aborted, r.Unfinished, r.Failed}); d != "" {
				t.Errorf("%d attempts, limit %d (-want +got):\n%s", attempts, limit, d)
			}
			if r.Attempts != r.Completed+r.Rejected+r.Aborted {
				t.Errorf("%d attempts, limit %d: %d attempts, %d completed, %d rejected, %d aborted", attempts, limit, r.Attempts, r.Completed, r.Rejected, r.Aborted)
			}
			if arrived != 0 && r.Arrived != arrived {
				t.Errorf("%d attempts, limit %d: %d requests, %d before", attempts, limit, r.Arrived, arrived)
			}
			arrived = r.Arrived
			if attempts == 1 && r.Attempts != r.Arrived {
				t.Errorf("limit %d: %d attempts of %d requests by clients that never try again", limit, r.Attempts, r.Arrived)
			}
			if _, _, second := storm(attempts, limit); second != log {
				t.Errorf("%d attempts, limit %d: two runs differ", attempts, limit)
			}
		}
	}
	if a, b := got[[2]int{1, 0}], got[[2]int{4, 0}]; b.met*2 > a.met || b.attempts < 2*a.attempts {
		t.Errorf("without a queue limit retries take %d of %d in time to %d, with %d attempts: no storm", a.met, arrived, b.met, b.attempts)
	}
	if a, b := got[[2]int{4, 0}], got[[2]int{4, 16}]; b.met < 2*a.met {
		t.Errorf("the queue limit takes %d of %d in time to %d: it does not help", a.met, arrived, b.met)
	}
}

// A little too much load. Clients that give up after two seconds and try
// again bring the deployment down: it computes prompts that nobody waits for.
func ExampleRetry() {
	for _, attempts := range []int{1, 4} {
		cfg, requests := chat()
		cfg.FollowUp = workload.Retry{Seed: 1, Attempts: attempts, Backoff: 500 * time.Millisecond, Max: 8 * time.Second, Jitter: 0.25}.FollowUp
		r, err := metrics.Run(context.Background(), cfg, metrics.Options{}, requests)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%d requests in %d attempts, %d aborted; %d in time, goodput %v/s\n", r.Arrived, r.Attempts, r.Aborted, r.Met, r.Goodput)
	}
	// Output:
	// 812 requests in 812 attempts, 104 aborted; 708 in time, goodput 11.51/s
	// 812 requests in 2514 attempts, 2205 aborted; 218 in time, goodput 3.11/s
}

// A client tries again first; a session goes on with the next turn when an
// answer came, and ends when the client has given up.
func ExampleFollowUps() {
	retry := workload.Retry{Attempts: 2, Backoff: time.Second}
	session := func(c sim.Completion) []sim.Request {
		if c.Kind != sim.Finish {
			fmt.Println("the session ends")
			return nil
		}
		next := c.Request
		next.ID, next.Prompt, next.Attempt = next.ID+1, next.Prompt+c.Output, 0
		next.Arrival = c.End.Add(10 * time.Second)
		return []sim.Request{next}
	}
	followUp := workload.FollowUps(retry.FollowUp, session)

	first := sim.Request{ID: 1, Prompt: 100}
	turn := followUp(sim.Completion{Kind: sim.Finish, Request: first, Output: 20, End: sim.Time(2 * time.Second)})[0]
	fmt.Println("turn", turn.ID, "at", turn.Arrival, "prompt", turn.Prompt)
	again := followUp(sim.Completion{Kind: sim.Reject, Reason: "queue_full", Request: turn, End: turn.Arrival})[0]
	fmt.Println("turn", again.ID, "at", again.Arrival, "attempt", again.Attempt, "first at", again.First)
	followUp(sim.Completion{Kind: sim.Reject, Reason: "queue_full", Request: again, End: again.Arrival})
	// Output:
	// turn 2 at 12s prompt 120
	// turn 2 at 13s attempt 1 first at 12s
	// the session ends
}
