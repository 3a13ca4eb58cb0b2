package metrics_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"servesim/scheduler"
	"servesim/sim"
	"servesim/sim/metrics"
	"servesim/sim/simtest"
)

// series are the samples of an exposition by name and labels.
type series map[string]float64

var (
	sampleLine = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)\{((?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)+)\} (\S+)$`)
	labelPair  = regexp.MustCompile(`^([a-z_]+)="((?:[^"\\\n]|\\["\\n])*)"(,|$)`)
	boundLabel = regexp.MustCompile(`le="([^"]*)",`)
)

// readExposition reads Prometheus' text format, strictly: HELP, TYPE and then
// all samples of a family, labels in order, none twice, histograms that add up.
func readExposition(t *testing.T, text string) series {
	t.Helper()
	if !strings.HasSuffix(text, "\n") {
		t.Fatal("the last line has no end")
	}
	all, families := series{}, map[string]bool{}
	family, kind := "", ""
	last := map[string]struct{ bound, n float64 }{}
	for _, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if rest, ok := strings.CutPrefix(line, "# HELP "); ok {
			name, help, _ := strings.Cut(rest, " ")
			if families[name] || help == "" {
				t.Fatalf("%q: a family twice, or without a text", line)
			}
			families[name], family, kind = true, name, ""
			continue
		}
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, of, _ := strings.Cut(rest, " ")
			if name != family || kind != "" || of != "gauge" && of != "counter" && of != "histogram" || (of == "counter") != strings.HasSuffix(name, "_total") && name != "vllm:iteration_tokens_total" {
				t.Fatalf("%q behind the family %s", line, family)
			}
			kind = of
			continue
		}
		m := sampleLine.FindStringSubmatch(line)
		if m == nil || kind == "" {
			t.Fatalf("%q is no sample", line)
		}
		name, labels := m[1], m[2]
		value, err := strconv.ParseFloat(m[3], 64)
		if err != nil || math.IsNaN(value) || value < 0 {
			t.Fatalf("%q: value %q", line, m[3])
		}
		before := ""
		for rest := labels; rest != ""; {
			pair := labelPair.FindStringSubmatch(rest)
			if pair == nil || pair[1] <= before {
				t.Fatalf("%q: labels %q", line, rest)
			}
			before, rest = pair[1], rest[len(pair[0]):]
		}
		key := name + "{" + labels + "}"
		if _, ok := all[key]; ok {
			t.Fatalf("%q stands twice", key)
		}
		all[key] = value
		if kind != "histogram" {
			if name != family {
				t.Fatalf("%q in the family %s", line, family)
			}
			continue
		}
		suffix := strings.TrimPrefix(name, family)
		of := family + "{" + boundLabel.ReplaceAllString(labels, "") + "}"
		switch suffix {
		case "_bucket":
			bound, err := strconv.ParseFloat(boundLabel.FindStringSubmatch(labels)[1], 64)
			if b, ok := last[of]; err != nil || ok && (bound <= b.bound || value < b.n) {
				t.Fatalf("%q behind %+v", line, b)
			}
			last[of] = struct{ bound, n float64 }{bound, value}
		case "_count":
			if b := last[of]; !math.IsInf(b.bound, 1) || b.n != value {
				t.Fatalf("%q behind %+v", line, b)
			}
		case "_sum":
		default:
			t.Fatalf("%q in the histogram %s", line, family)
		}
	}
	return all
}

// total adds up the engines' samples of a name and further labels.
func (s series) total(name, labels string) (sum float64) {
	for key, v := range s {
		if strings.HasPrefix(key, "vllm:"+name+"{") && strings.Contains(key, labels) {
			sum += v
		}
	}
	return sum
}

// sample returns the one value of a name and an engine.
func sample(t *testing.T, text, name, engine string) float64 {
	t.Helper()
	_, rest, ok := strings.Cut(text, "\nvllm:"+name+"{"+engine)
	if !ok {
		t.Fatalf("no %s of %s", name, engine)
	}
	_, rest, _ = strings.Cut(rest, "} ")
	value, _, _ := strings.Cut(rest, "\n")
	x, err := strconv.ParseFloat(value, 64)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// observed is what the events of a run say of one histogram.
type observed struct{ values []float64 }

// Whatever happens in a run, the figures are those of its events.
func TestPrometheus(t *testing.T) {
	hits := 0.0
	for seed := range uint64(60) {
		s := simtest.Scenario{Seed: seed, Deployments: seed%2 == 1}
		n := uint64(0)
		cfg := s.Config(func() sim.Scheduler { n++; return &simtest.Chaos{Seed: seed<<8 + n} })
		p := &metrics.Prometheus{Config: cfg, Model: "m"}
		want := map[string]*observed{}
		see := func(name string, v float64) {
			if want[name] == nil {
				want[name] = &observed{}
			}
			want[name].values = append(want[name].values, v)
		}
		prompts, sampled, looked, found, aborted := 0.0, 0.0, 0.0, 0.0, 0.0
		firsts := map[int32]float64{}
		reasons := map[string]float64{}
		admitted := map[int64]bool{}
		seconds := func(from, to sim.Time) float64 { return float64(to-from) / 1e9 }
		cfg.Observers = append(cfg.Observers, p, sim.ObserverFunc(func(e sim.Event) {
			tl := e.Timeline
			switch e.Kind {
			case sim.Admit:
				if !admitted[e.Serial] && cfg.Replicas[e.Replica].PrefixCache && tl.PrefillEnd == sim.NoTime {
					looked += float64(e.Prompt)
					found += float64(e.Cached)
				}
				admitted[e.Serial] = true
			case sim.FirstToken:
				see("time_to_first_token_seconds", seconds(tl.Arrival, e.Time))
				prompts += float64(e.Prompt)
				firsts[e.Replica] += float64(e.Prompt)
			case sim.StepEnd:
				sampled += float64(e.Tokens)
				see("iteration_tokens_total", float64(e.Tokens)+firsts[e.Replica])
				firsts[e.Replica] = 0
				for _, g := range e.Gaps {
					for range g.Count {
						if g.Prev != e.Time {
							see("inter_token_latency_seconds", seconds(g.Prev, e.Time))
						}
					}
				}
			case sim.Abort:
				if e.Replica >= 0 {
					aborted++
				}
			case sim.Finish:
				reasons[e.Reason]++
				see("e2e_request_latency_seconds", seconds(tl.Arrival, e.Time))
				see("request_queue_time_seconds", seconds(tl.Queued, tl.Admitted))
				see("request_prefill_time_seconds", seconds(tl.Admitted, tl.FirstToken))
				see("request_decode_time_seconds", seconds(tl.FirstToken, e.Time))
				see("request_inference_time_seconds", seconds(tl.Admitted, e.Time))
				see("request_prompt_tokens", float64(e.Prompt))
				see("request_generation_tokens", float64(e.Output))
				see("request_params_n", 1)
				see("request_time_per_output_token_seconds", seconds(tl.FirstToken, e.Time)/max(1, float64(e.Output-1)))
			}
		}))
		res, err := sim.Run(context.Background(), cfg, s.Requests())
		if err != nil {
			t.Fatal(err)
		}
		got := readExposition(t, string(p.AppendText(nil)))
		for name, o := range want {
			sum := 0.0
			for _, v := range o.values {
				sum += v
			}
			if c := got.total(name+"_count", ""); c != float64(len(o.values)) {
				t.Errorf("seed %d: %s has %v values, want %d", seed, name, c, len(o.values))
			}
			if d := got.total(name+"_sum", "") - sum; math.Abs(d) > 1e-6*max(1, sum) {
				t.Errorf("seed %d: %s sums up to %v, want %v", seed, name, got.total(name+"_sum", ""), sum)
			}
		}
		for name, v := range map[string]float64{
			"num_preemptions_total": float64(res.Preemptions), "generation_tokens_total": float64(res.Tokens), "prompt_tokens_total": prompts,
			"prefix_cache_queries_total": looked, "prefix_cache_hits_total": found, "prompt_tokens_cached_total": found,
		} {
			if got.total(name, "") != v {
				t.Errorf("seed %d: %s is %v, want %v", seed, name, got.total(name, ""), v)
			}
		}
		hits += found
		ends := map[string]float64{"stop": got.total("request_success_total", `"stop"`), "length": got.total("request_success_total", `"length"`), "abort": got.total("request_success_total", `"abort"`)}
		if ends["stop"] != reasons[sim.FinishStop] || ends["length"] != reasons[sim.FinishLength] || ends["abort"] != aborted || sampled != float64(res.Tokens) {
			t.Errorf("seed %d: ends %v, want %v and %v aborts", seed, ends, reasons, aborted)
		}
		// With the horizon some may be at the front door.
		if n := got.total("num_requests_running", "") + got.total("num_requests_waiting", ""); n > float64(res.Unfinished) || res.Unfinished == 0 && n != 0 {
			t.Errorf("seed %d: %v requests in the engines, %d unfinished", seed, n, res.Unfinished)
		}
	}
	if hits == 0 {
		t.Error("no hit in a prefix cache in any run")
	}
}

// The numbers of requests and blocks are those that steps start with.
func TestPrometheusGauges(t *testing.T) {
	compared := 0
	for seed := range uint64(16) {
		s := simtest.Scenario{Seed: seed, Deployments: seed%2 == 1}
		n := uint64(0)
		cfg := s.Config(func() sim.Scheduler { n++; return &simtest.Chaos{Seed: seed<<8 + n} })
		p := &metrics.Prometheus{Config: cfg}
		now, texts := sim.Time(0), map[sim.Time]string{}
		cfg.Observers = append(cfg.Observers, sim.ObserverFunc(func(e sim.Event) {
			if e.Time > now {
				texts[now] = string(p.AppendText(nil))
				now = e.Time
			}
			p.Observe(e)
			if e.Kind != sim.StepEnd {
				return
			}
			k := cfg.Replicas[e.Replica]
			engine := fmt.Sprintf(`engine="%d",`, e.Replica)
			if usable := float64(k.KVBlocks - k.ReservedBlocks); k.KVBlocks > 0 {
				use := sample(t, string(p.AppendText(nil)), "kv_cache_usage_perc", engine)
				if math.Abs(use-(usable-float64(e.FreeBlocks))/usable) > 1e-12 {
					t.Fatalf("seed %d: KV use %v, %d of %v blocks are free", seed, use, e.FreeBlocks, usable)
				}
			}
			if k.InFlight > 1 || k.Group > 0 {
				return
			}
			was, ok := texts[e.Time.Add(-e.Took)]
			if !ok {
				return // nothing else happened when it started
			}
			compared++
			// Somebody may come in the same instant, in reaction to what the pass rejected.
			if r, w := sample(t, was, "num_requests_running", engine), sample(t, was, "num_requests_waiting", engine); r != float64(e.Running) || w < float64(e.Waiting) {
				t.Fatalf("seed %d: %v run and %v wait, the step that starts has %d and %d", seed, r, w, e.Running, e.Waiting)
			}
		}))
		cfg.Until = 100_000
		if _, err := sim.Run(context.Background(), cfg, s.Requests()); err != nil {
			t.Fatal(err)
		}
	}
	if compared < 100 {
		t.Errorf("%d steps compared", compared)
	}
}

// A value on a bound belongs below it, and bounds are written as vLLM writes
// them.
func TestPrometheusBuckets(t *testing.T) {
	p := &metrics.Prometheus{Config: sim.Config{Replicas: []sim.Replica{{MaxModelLen: 2_000_000}, {MaxModelLen: 100}}}, Model: "a\"b\\c\nd"}
	token := func(at sim.Time) {
		p.Observe(sim.Event{Kind: sim.FirstToken, Serial: 1, Time: at, Prompt: 7})
	}
	token(1_000_000)
	token(1_000_001)
	token(2_560_000_000_000)
	token(2_560_000_000_001)
	text := string(p.AppendText(nil))
	got := readExposition(t, text)
	model := `model_name="a\"b\\c\nd"}`
	want := series{}
	for le, n := range map[string]float64{"0.001": 1, "0.005": 2, "0.01": 2, "0.02": 2, "0.04": 2, "0.06": 2, "0.08": 2, "0.1": 2, "0.25": 2, "0.5": 2, "0.75": 2, "1.0": 2, "2.5": 2,
		"5.0": 2, "7.5": 2, "10.0": 2, "20.0": 2, "40.0": 2, "80.0": 2, "160.0": 2, "640.0": 2, "2560.0": 3, "+Inf": 4} {
		want[`vllm:time_to_first_token_seconds_bucket{engine="0",le="`+le+`",`+model] = n
	}
	want[`vllm:time_to_first_token_seconds_count{engine="0",`+model] = 4
	want[`vllm:time_to_first_token_seconds_sum{engine="0",`+model] = 5120.002000002
	for key := range got {
		if !strings.Contains(key, "time_to_first_token") || !strings.Contains(key, `engine="0"`) {
			delete(got, key)
		}
	}
	if d := cmp.Diff(want, got, cmpopts.EquateApprox(1e-15, 0)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	for _, le := range []string{"1.0", "500000.0", "1e+06", "2e+06"} {
		if !strings.Contains(text, `vllm:request_prompt_tokens_bucket{engine="0",le="`+le+`",`) {
			t.Errorf("no bound %s", le)
		}
	}
	if strings.Contains(text, `le="5e+06"`) || strings.Contains(text, "kv_cache_usage_perc{") {
		t.Error("a bound beyond the largest length, or the KV use of a replica without blocks")
	}
	for replicas, most := range map[string][]sim.Replica{"100000.0": {{}, {MaxModelLen: 100}}, "50.0": {{MaxModelLen: 99}}} {
		text := string((&metrics.Prometheus{Config: sim.Config{Replicas: most}}).AppendText(nil))
		from := strings.LastIndex(text, `vllm:request_prompt_tokens_bucket{engine="0",le="`+replicas)
		if from < 0 || !strings.HasPrefix(text[from+strings.Index(text[from:], "\n")+1:], `vllm:request_prompt_tokens_bucket{engine="0",le="+Inf"`) {
			t.Errorf("the largest bound is not %s", replicas)
		}
	}
}

// Every name of the latency and load families that consumers read.
func TestPrometheusNames(t *testing.T) {
	text := string((&metrics.Prometheus{Config: sim.Config{Replicas: make([]sim.Replica, 1)}}).AppendText(nil))
	var got []string
	for _, line := range strings.Split(text, "\n") {
		if name, ok := strings.CutPrefix(line, "# TYPE vllm:"); ok {
			got = append(got, name)
		}
	}
	want := []string{"num_requests_running gauge", "num_requests_waiting gauge", "kv_cache_usage_perc gauge",
		"prefix_cache_queries_total counter", "prefix_cache_hits_total counter", "num_preemptions_total counter", "prompt_tokens_total counter",
		"prompt_tokens_cached_total counter", "generation_tokens_total counter", "request_success_total counter",
		"request_prompt_tokens histogram", "request_generation_tokens histogram", "request_max_num_generation_tokens histogram", "request_params_n histogram",
		"iteration_tokens_total histogram", "time_to_first_token_seconds histogram", "time_per_output_token_seconds histogram", "inter_token_latency_seconds histogram",
		"request_time_per_output_token_seconds histogram", "e2e_request_latency_seconds histogram", "request_queue_time_seconds histogram",
		"request_inference_time_seconds histogram", "request_prefill_time_seconds histogram", "request_decode_time_seconds histogram"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// Scrapes come at multiples of their interval, with all that has happened until
// then.
func TestPrometheusScrapes(t *testing.T) {
	type scrape struct {
		at                sim.Time
		running, finished float64
	}
	var got []scrape
	p := &metrics.Prometheus{Config: sim.Config{Replicas: make([]sim.Replica, 1)}, Every: 10}
	p.Scrape = func(at sim.Time, text []byte) {
		s := readExposition(t, string(text))
		got = append(got, scrape{at, s.total("num_requests_running", ""), s.total("e2e_request_latency_seconds_count", "")})
	}
	for _, e := range []sim.Event{
		{Time: 3, Kind: sim.Queue, Serial: 1}, {Time: 10, Kind: sim.Admit, Serial: 1}, {Time: 10, Kind: sim.Queue, Serial: 2},
		{Time: 35, Kind: sim.Finish, Serial: 1, Reason: sim.FinishStop}, {Time: 40, Kind: sim.End, Replica: -1},
	} {
		p.Observe(e)
	}
	if d := cmp.Diff([]scrape{{10, 1, 0}, {20, 1, 0}, {30, 1, 0}, {40, 0, 1}}, got, cmp.AllowUnexported(scrape{})); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestPrometheusOfAnotherDeployment(t *testing.T) {
	defer func() {
		if r := recover(); r != "metrics: an event of replica 1, Prometheus.Config has 1" {
			t.Errorf("panic %v", r)
		}
	}()
	(&metrics.Prometheus{Config: sim.Config{Replicas: make([]sim.Replica, 1)}}).Observe(sim.Event{Kind: sim.Queue, Replica: 1})
}

// The load after 1.5 s of a run, as a server would tell it.
func ExamplePrometheus() {
	cfg := sim.Config{Replicas: []sim.Replica{{Scheduler: scheduler.ChunkedPrefill{}, MaxSeqs: 4, KVBlocks: 1000, MaxBatchTokens: 1024,
		CostModel: sim.CostFunc(func(b sim.Batch) time.Duration {
			return 6*time.Millisecond + time.Duration(b.PrefillTokens())*50*time.Microsecond
		})}}}
	p := &metrics.Prometheus{Config: cfg, Model: "llama", Every: 1500 * time.Millisecond}
	p.Scrape = func(at sim.Time, text []byte) {
		if at == 1_500_000_000 {
			for _, line := range strings.Split(string(text), "\n") {
				if strings.HasPrefix(line, "vllm:num_requests") || strings.HasPrefix(line, "vllm:kv") {
					fmt.Fprintln(os.Stdout, line)
				}
			}
		}
	}
	cfg.Observers = []sim.Observer{p}
	_, err := sim.Run(context.Background(), cfg, func(yield func(sim.Request, error) bool) {
		for i := range 20 {
			if !yield(sim.Request{ID: i, Arrival: sim.Time(i) * 100_000_000, Prompt: 500, Output: 100}, nil) {
				return
			}
		}
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// vllm:num_requests_running{engine="0",model_name="llama"} 4.0
	// vllm:num_requests_waiting{engine="0",model_name="llama"} 7.0
	// vllm:kv_cache_usage_perc{engine="0",model_name="llama"} 0.143
}
