package sim_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"servesim/scheduler"
	"servesim/sim"
)

var update = flag.Bool("update", false, "rewrite the event logs under testdata")

// Every file under testdata tells a story of the engine: comments, the set-up,
// a line of dashes, and the event log that it gives. Times are nanoseconds.
// After go test -update a changed line is reviewed like code.
//
//	replica scheduler=chunked count=1 slots=0 budget=0 blocks=0 reserved=0 block=4 model=0 order=priority
//	cost    step=10 prompt=1 decode=0 context=0 pad=0   pad is per padded row and prompt position
//	class   priority=0 gap=0                            one line per class
//	router  name=round-robin
//	request id=1 at=0 prompt=8 output=2 max=0 class=0 first=0 total=0
//	follow  after=1 think=5 id=2 prompt=8 output=2      sent when request 1 has ended
//	open    id=3 at=50                                  the front door defers request 3 until then
//	refuse  id=3                                        the front door rejects request 3
//	until   at=100
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txt"), func(t *testing.T) {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			setup, want, ok := strings.Cut(string(b), "----\n")
			if !ok {
				t.Fatalf("%s: no line of dashes", name)
			}
			got := readStory(t, name, setup).play(t, false)
			if checked := readStory(t, name, setup).play(t, true); checked != got {
				t.Errorf("Check changes the log (-without +with):\n%s", cmp.Diff(got, checked))
			}
			if *update {
				if err := os.WriteFile(name, []byte(setup+"----\n"+got), 0o666); err != nil {
					t.Fatal(err)
				}
				return
			}
			if d := cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")); d != "" {
				t.Errorf("event log (-want +got):\n%s", d)
			}
		})
	}
}

// story is the set-up of a scenario file.
type story struct {
	cfg      sim.Config
	requests []sim.Request
	follows  map[int]storyFollow
	door     storyDoor
}

type storyFollow struct {
	think   time.Duration
	request sim.Request
}

// storyDoor defers and refuses requests by id.
type storyDoor struct {
	open   map[int]sim.Time
	refuse map[int]bool
}

func (d storyDoor) Admit(now sim.Time, q sim.Query, _ []sim.Load) sim.Decision {
	if d.refuse[q.ID] {
		return sim.Decision{Reject: "refused"}
	}
	if at := d.open[q.ID]; now < at {
		return sim.Decision{Until: at}
	}
	return sim.Decision{}
}

// storyScheduler returns a policy by name.
func storyScheduler(name string) sim.Scheduler {
	switch name {
	case "chunked":
		return scheduler.ChunkedPrefill{}
	case "continuous":
		return scheduler.Continuous{}
	case "orca":
		return scheduler.Continuous{ReserveMax: true}
	case "batch":
		return &scheduler.RequestBatch{}
	case "padded":
		return &scheduler.RequestBatch{Padded: true, FreeAtEnd: true}
	}
	return nil
}

// storyLine is a line of a set-up: a word and its numbers.
type storyLine struct {
	t      *testing.T
	where  string
	fields map[string]string
}

// text takes a field out of the line.
func (l storyLine) text(key string) string {
	s := l.fields[key]
	delete(l.fields, key)
	return s
}

// number takes a number out of the line; def if it is not there.
func (l storyLine) number(key string, def int) int {
	s, ok := l.fields[key]
	if !ok {
		return def
	}
	delete(l.fields, key)
	n, err := strconv.Atoi(s)
	if err != nil {
		l.t.Fatalf("%s: %s: %v", l.where, key, err)
	}
	return n
}

func (l storyLine) duration(key string, def int) time.Duration {
	return time.Duration(l.number(key, def))
}

func readStory(t *testing.T, name, setup string) *story {
	s := &story{follows: map[int]storyFollow{}, door: storyDoor{map[int]sim.Time{}, map[int]bool{}}}
	s.cfg.Admission = s.door
	for i, text := range strings.Split(setup, "\n") {
		words := strings.Fields(text)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		l := storyLine{t, fmt.Sprintf("%s:%d", name, i+1), map[string]string{}}
		for _, w := range words[1:] {
			key, value, ok := strings.Cut(w, "=")
			if !ok {
				t.Fatalf("%s: %q is not key=value", l.where, w)
			}
			l.fields[key] = value
		}
		s.read(words[0], l)
		for key := range l.fields {
			t.Fatalf("%s: %s has no field %q", l.where, words[0], key)
		}
	}
	return s
}

// read takes one line into the story. Replicas come before their cost.
func (s *story) read(word string, l storyLine) {
	switch word {
	case "replica":
		s.replicas(l)
	case "cost":
		step, prompt, decode, context, pad := l.duration("step", 0), l.duration("prompt", 0), l.duration("decode", 0), l.duration("context", 0), l.duration("pad", 0)
		for i := range s.cfg.Replicas {
			s.cfg.Replicas[i].CostModel = sim.CostFunc(func(b sim.Batch) time.Duration {
				return step + prompt*time.Duration(b.PrefillTokens()) + decode*time.Duration(b.Decodes) +
					context*time.Duration(b.Context) + pad*time.Duration(b.Padding.Rows+b.Padding.PromptTokens)
			})
		}
	case "class":
		s.cfg.Classes = append(s.cfg.Classes, sim.Class{Priority: l.number("priority", 0), Gap: l.duration("gap", 0)})
	case "router":
		if name := l.text("name"); name != "round-robin" {
			l.t.Fatalf("%s: no router %q", l.where, name)
		}
		s.cfg.Router = &scheduler.RoundRobin{}
	case "request":
		s.requests = append(s.requests, l.request())
	case "follow":
		after, think := l.number("after", 0), l.duration("think", 0)
		s.follows[after] = storyFollow{think, l.request()}
	case "open":
		s.door.open[l.number("id", 0)] = sim.Time(l.number("at", 0))
	case "refuse":
		s.door.refuse[l.number("id", 0)] = true
	case "until":
		s.cfg.Until = sim.Time(l.number("at", 0))
	default:
		l.t.Fatalf("%s: no word %q", l.where, word)
	}
}

func (s *story) replicas(l storyLine) {
	name, count := l.text("scheduler"), l.number("count", 1)
	r := sim.Replica{MaxSeqs: l.number("slots", 0), MaxBatchTokens: l.number("budget", 0), MaxModelLen: l.number("model", 0),
		KVBlocks: l.number("blocks", 0), ReservedBlocks: l.number("reserved", 0), BlockTokens: l.number("block", 4)}
	if order := l.text("order"); order == "priority" {
		r.Order = sim.OrderFunc(scheduler.ByPriority)
	} else if order != "" {
		l.t.Fatalf("%s: no order %q", l.where, order)
	}
	for range count {
		if r.Scheduler = storyScheduler(name); r.Scheduler == nil {
			l.t.Fatalf("%s: no scheduler %q", l.where, name)
		}
		s.cfg.Replicas = append(s.cfg.Replicas, r)
	}
}

func (l storyLine) request() sim.Request {
	return sim.Request{ID: l.number("id", 0), Arrival: sim.Time(l.number("at", 0)), Prompt: l.number("prompt", 0), Output: l.number("output", 0),
		MaxOutput: l.number("max", 0), Class: l.number("class", 0),
		Patience: sim.Patience{First: l.duration("first", 0), Total: l.duration("total", 0)}}
}

// play runs the story and returns its event log. An error of the run is the
// last line.
func (s *story) play(t *testing.T, check bool) string {
	var log strings.Builder
	s.cfg.Check = check
	s.cfg.Observers = []sim.Observer{sim.ObserverFunc(func(e sim.Event) { fmt.Fprintln(&log, e) })}
	if len(s.follows) > 0 {
		s.cfg.FollowUp = func(c sim.Completion) []sim.Request {
			f, ok := s.follows[c.Request.ID]
			if !ok {
				return nil
			}
			f.request.Arrival = c.End.Add(f.think)
			return []sim.Request{f.request}
		}
	}
	res, err := sim.Run(context.Background(), s.cfg, slice(s.requests))
	if err != nil {
		fmt.Fprintln(&log, "error:", err)
	}
	addsUp(t, res)
	return log.String()
}
