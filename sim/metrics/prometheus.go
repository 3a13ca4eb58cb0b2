package metrics

import (
	"fmt"
	"io"
	"time"

	"servesim/sim"
)

// Prometheus is a sim.Observer that keeps what a vLLM server exposes, one engine
// for each replica, and writes it in Prometheus' text format under vLLM's names
// and with its bucket bounds. It takes as much memory as requests in flight.
//
// Definitions are those of vLLM's engine: times begin with the arrival at the
// front door (TTFT, E2E) or the queue; prefill lasts from the first admission to
// the first token; a gap between tokens is one of a request between two steps;
// the tokens of an iteration are those sampled and, with its first token, all of
// a prompt. A request that two replicas serve counts where it ends, its first
// token where that was sampled. Numbers of requests are exact at every instant;
// the KV use is that of the latest step, and missing where memory never runs out.
// Lengths have bounds up to the largest MaxModelLen, or 131072.
//
// What a sim.Store has of a prompt counts as found in the prefix cache.
// vLLM knows no rejections, and so they are not there; aborts count in
// request_success only. What events do not say is missing too: the parameters
// of requests but n, sources of prompt tokens, the lifetime of blocks,
// speculation.
type Prometheus struct {
	// Config is that of the run: replicas, and their KV blocks and limits.
	Config sim.Config
	Model  string // label model_name, in UTF-8
	// Scrape, if it is set, is called at every multiple of Every, from Every on to
	// the end of the run, with what a server would answer at that instant, all of
	// its events included. The text is valid during the call.
	Every  time.Duration
	Scrape func(at sim.Time, text []byte)

	engines []engine
	lives   map[int64]place
	next    sim.Time // of the next scrape
	text    []byte
}

// place is where a request is that has joined a replica.
type place struct {
	replica int32
	running bool
}

// engine is what one replica exposes.
type engine struct {
	running, waiting                 int64
	used, usable                     int64 // KV blocks
	preemptions                      int64
	promptTokens, cachedTokens       int64
	generationTokens, queries        int64
	stopped, length, aborted         int64
	firstPrompts                     int64 // prompt tokens whose first token this step samples
	ttft, itl, perToken              histogram
	e2e, queue, inference            histogram
	prefill, decode                  histogram
	prompt, generation, iteration, n histogram
}

// Bounds of vLLM's histograms, in seconds or tokens.
var (
	ttftBounds      = []float64{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
	gapBounds       = []float64{.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
	requestBounds   = []float64{.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
	iterationBounds = []float64{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}
	paramsBounds    = []float64{1, 2, 5, 10, 20}
)

// defaultLength is the largest length of a deployment without limits.
const defaultLength = 131072

// lengthBounds are 1, 2, 5, 10, … up to the largest length of a request.
func lengthBounds(replicas []sim.Replica) []float64 {
	most := 0
	for i := range replicas {
		if n := replicas[i].MaxModelLen; n > 0 {
			most = max(most, n)
		} else {
			most = max(most, defaultLength)
		}
	}
	var bounds []float64
	for scale := 1; ; scale *= 10 {
		for _, m := range []int{1, 2, 5} {
			if m*scale > most {
				return bounds
			}
			bounds = append(bounds, float64(m*scale))
		}
	}
}

// begin makes the engines.
func (p *Prometheus) begin() {
	if p.lives != nil {
		return
	}
	p.lives = map[int64]place{}
	p.next = sim.Time(p.Every)
	lengths := lengthBounds(p.Config.Replicas)
	for i := range p.Config.Replicas {
		r := &p.Config.Replicas[i]
		seconds := func(bounds []float64) histogram { return newHistogram(bounds, 1e9) }
		tokens := func(bounds []float64) histogram { return newHistogram(bounds, 1) }
		p.engines = append(p.engines, engine{usable: int64(r.KVBlocks - r.ReservedBlocks),
			ttft: seconds(ttftBounds), itl: seconds(gapBounds), perToken: seconds(gapBounds),
			e2e: seconds(requestBounds), queue: seconds(requestBounds), inference: seconds(requestBounds),
			prefill: seconds(requestBounds), decode: seconds(requestBounds),
			prompt: tokens(lengths), generation: tokens(lengths), iteration: tokens(iterationBounds), n: tokens(paramsBounds)})
	}
}

// Observe takes in an event. Events come in order of time, and from no replica
// that Config lacks.
func (p *Prometheus) Observe(e sim.Event) {
	p.begin()
	p.scrape(e.Time, false)
	if int(e.Replica) >= len(p.engines) {
		panic(fmt.Sprintf("metrics: an event of replica %d, Prometheus.Config has %d", e.Replica, len(p.engines)))
	}
	switch e.Kind {
	case sim.End:
		p.scrape(e.Time, true)
	case sim.Queue, sim.Handoff:
		p.move(e.Serial, place{replica: e.Replica})
	case sim.Admit:
		p.move(e.Serial, place{e.Replica, true})
		p.admit(&e)
	case sim.Preempt:
		p.move(e.Serial, place{replica: e.Replica})
		p.engines[e.Replica].preemptions++
	case sim.FirstToken:
		x := &p.engines[e.Replica]
		x.ttft.add(int64(e.Time-e.Timeline.Arrival), 1)
		x.promptTokens += int64(e.Prompt)
		x.firstPrompts += int64(e.Prompt)
	case sim.StepEnd:
		p.step(&e)
	case sim.Finish, sim.Reject, sim.Abort:
		p.leave(&e)
	}
}

// scrape answers the scrapes before an instant, or up to it.
func (p *Prometheus) scrape(now sim.Time, through bool) {
	if p.Scrape == nil || p.Every <= 0 {
		return
	}
	for p.next < now || through && p.next == now {
		p.text = p.AppendText(p.text[:0])
		p.Scrape(p.next, p.text)
		p.next = p.next.Add(p.Every)
	}
}

// move counts a request in its place, and no longer in the one before.
func (p *Prometheus) move(serial int64, to place) {
	p.drop(serial)
	p.lives[serial] = to
	p.count(to, 1)
}

func (p *Prometheus) drop(serial int64) {
	if at, ok := p.lives[serial]; ok {
		p.count(at, -1)
		delete(p.lives, serial)
	}
}

func (p *Prometheus) count(at place, by int64) {
	x := &p.engines[at.replica]
	if at.running {
		x.running += by
	} else {
		x.waiting += by
	}
}

// admit counts what a first admission looks up in the prefix cache.
func (p *Prometheus) admit(e *sim.Event) {
	if e.Timeline.Admitted != e.Time || e.Preemptions > 0 {
		return
	}
	if !p.Config.Replicas[e.Replica].PrefixCache {
		return
	}
	x := &p.engines[e.Replica]
	x.queries += int64(e.Prompt)
	x.cachedTokens += int64(e.Cached)
}

func (p *Prometheus) step(e *sim.Event) {
	x := &p.engines[e.Replica]
	x.used = x.usable - int64(e.FreeBlocks)
	x.generationTokens += int64(e.Tokens)
	x.iteration.add(x.firstPrompts+int64(e.Tokens), 1)
	x.firstPrompts = 0
	for i := range e.Gaps {
		if gap := int64(e.Time - e.Gaps[i].Prev); gap > 0 { // 0 between tokens of one step
			x.itl.add(gap, int64(e.Gaps[i].Count))
		}
	}
}

func (p *Prometheus) leave(e *sim.Event) {
	p.drop(e.Serial)
	if e.Replica < 0 {
		return
	}
	x := &p.engines[e.Replica]
	switch {
	case e.Kind == sim.Abort:
		x.aborted++
		return
	case e.Kind == sim.Reject:
		return
	case e.Reason == sim.FinishLength:
		x.length++
	default:
		x.stopped++
	}
	t := &e.Timeline
	x.e2e.add(int64(e.Time-t.Arrival), 1)
	x.queue.add(int64(t.Admitted-t.Queued), 1)
	x.prefill.add(int64(t.FirstToken-t.Admitted), 1)
	x.decode.add(int64(e.Time-t.FirstToken), 1)
	x.inference.add(int64(e.Time-t.Admitted), 1)
	x.prompt.add(int64(e.Prompt), 1)
	x.generation.add(int64(e.Output), 1)
	x.n.add(1, 1)
	perToken := int64(0)
	if e.Output > 1 {
		perToken = int64(e.Time-t.FirstToken) / int64(e.Output-1)
	}
	x.perToken.add(perToken, 1)
}

// WriteText writes what is exposed after the events so far.
func (p *Prometheus) WriteText(w io.Writer) error {
	_, err := w.Write(p.AppendText(nil))
	return err
}
