package workload_test

import (
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"

	"servesim/workload"
)

// sound is a document to damage: a fault replaces a part of it.
const sound = `{
  "servesim_workload": 1,
  "seed": 7,
  "sources": [
    {
      "name": "chat",
      "requests": {
        "kind": "open",
        "arrivals": {"kind": "gamma", "rate_per_s": 8, "cv": 2},
        "mix": [
          {"class": {"ttft_ms": 500}, "lengths": {"kind": "tokens", "prompt_tokens": 9, "output_tokens": 9}}
        ]
      }
    }
  ]
}
`

// Every fault is an error that names file, line and the way to the value.
func TestDocumentFaults(t *testing.T) {
	parsed(t, sound)
	for _, c := range []struct{ old, new, want string }{
		{`"servesim_workload": 1,`, ``, `w.json:1: the field "servesim_workload" is missing`},
		{`"servesim_workload": 1`, `"servesim_workload": 2`, `w.json:2: servesim_workload: version 2, this reads 1`},
		{`"servesim_workload": 1`, `"servesim_workload": 1.0`, `w.json:2: servesim_workload: version 1.0, this reads 1`},
		{`"seed": 7`, `"Seed": 7`, `w.json:1: the field "seed" is missing`},
		{`"seed": 7`, `"seed": 7, "sed": 8`, `w.json:3: unknown field "sed", known are servesim_workload, note, seed, sources`},
		{`"seed": 7`, `"seed": 7, "seed": 7`, `w.json:3: the field "seed" stands twice`},
		{`"seed": 7`, `"seed": -7`, `w.json:3: seed: -7, want a whole number from 0 to 2^64-1`},
		{`"seed": 7`, `"seed": 18446744073709551616`, `w.json:3: seed: 18446744073709551616, want a whole number`},
		{`"seed": 7`, `"seed": "7"`, `w.json:3: seed: "7", want a number`},
		{`"seed": 7`, `"seed": null`, `w.json:3: seed: null, want a number`},
		{`"seed": 7`, `"seed": 07`, `w.json:3: not JSON`},
		{`"name": "chat"`, `"name": 1`, `w.json:6: sources[0].name: 1, want a string`},
		{`"name": "chat"`, `"first": 1.5`, `w.json:6: sources[0].first: 1.5, want a whole number`},
		{`"name": "chat"`, `"first": -1`, `w.json:5: sources[0]: Source.First is -1, want at least 0`},
		{`"name": "chat"`, `"speed": -1`, `w.json:5: sources[0]: Source.Speed is -1, want a finite value above 0`},
		{`"name": "chat"`, `"speed": "inf"`, `w.json:5: sources[0]: Source.Speed is +Inf, want a finite value above 0`},
		{`"name": "chat"`, `"class": {"name": "c"}`, `w.json:5: sources[0]: Source.Class is set, but the shares of a mix`},
		{`"name": "chat"`, `"retry": {"attempts": 2, "after": "lunch"}`, `w.json:6: sources[0].retry: ClientRetry.After is "lunch", want "refused"`},
		{`"kind": "open"`, `"kind": "opne"`, `w.json:8: sources[0].requests.kind: unknown kind "opne", known are open, sessions, clients`},
		{`"kind": "open"`, `"kind": ["open"]`, `w.json:8: sources[0].requests.kind: a list, want a string`},
		{`"kind": "open",`, ``, `w.json:7: sources[0].requests: the field "kind" is missing, it is one of open, sessions`},
		{`"kind": "gamma"`, `"kind": "gama"`, `w.json:9: sources[0].requests.arrivals.kind: unknown kind "gama", known are constant`},
		{`"kind": "gamma", `, `"kind": "azure_code_2023", `, `w.json:9: sources[0].requests.arrivals: unknown field "rate_per_s", there are no others here`},
		{`"rate_per_s": 8, `, ``, `w.json:9: sources[0].requests.arrivals: the field "rate_per_s" is missing`},
		{`"rate_per_s": 8`, `"rate_per_s": -8`, `w.json:9: sources[0].requests.arrivals: Gamma.Rate is -8, want requests per second above 0`},
		{`"rate_per_s": 8`, `"rate_per_s": 1e999`, `w.json:9: sources[0].requests.arrivals.rate_per_s: 1e999 is beyond the numbers of a float64`},
		{`"rate_per_s": 8`, `"rate_per_s": [8]`, `w.json:9: sources[0].requests.arrivals.rate_per_s: a list, want a number`},
		{`"cv": 2}`, `"cv": 2, "shape": 2}`, `w.json:9: sources[0].requests.arrivals: Gamma.Shape is 2 and Gamma.CV is 2, want exactly one`},
		{`"cv": 2}`, `"cv": 2]`, `w.json:9: not JSON`},
		{`{"kind": "gamma", "rate_per_s": 8, "cv": 2}`, `"gamma"`, `w.json:9: sources[0].requests.arrivals: "gamma", want an object with a kind`},
		{`{"kind": "gamma", "rate_per_s": 8, "cv": 2}`, `{"kind": "superpose", "clients": []}`, `w.json:9: sources[0].requests.arrivals: no clients in Superpose`},
		{`{"kind": "gamma", "rate_per_s": 8, "cv": 2}`, `{"kind": "superpose"}`, `w.json:9: sources[0].requests.arrivals: the field "clients" is missing`},
		{`{"kind": "gamma", "rate_per_s": 8, "cv": 2}`, `{"kind": "superpose", "clients": [], "x": 1}`, `arrivals: unknown field "x", known are clients`},
		{`{"kind": "gamma", "rate_per_s": 8, "cv": 2}`, `{"kind": "vllm_bench", "requests": 1, "ramp_up": "steep"}`, `arrivals.ramp_up: "steep" is no ramp-up, want linear, exponential`},
		{`{"kind": "gamma", "rate_per_s": 8, "cv": 2}`, `{"kind": "vllm_bench", "requests": 1, "ramp_up": 1}`, `arrivals.ramp_up: 1, want a string`},
		{`{"kind": "gamma", "rate_per_s": 8, "cv": 2}`, `{"kind": "recorded", "from": {"kind": "open", "arrivals": {"kind": "poisson", "rate_per_s": 1}, "mix": [{"lengths": {"kind": "azure_conv_2023"}}]}}`,
			`arrivals: RecordedArrivals.From is a workload.Workload, want a recording`},
		{`"ttft_ms": 500`, `"ttft_ms": -500`, `w.json:11: sources[0].requests.mix[0].class.ttft_ms: -500: not a number of milliseconds, at least 0`},
		{`"ttft_ms": 500`, `"ttft_ms": 1e30`, `w.json:11: sources[0].requests.mix[0].class.ttft_ms: 1e30: more than 292 years in milliseconds`},
		{`"ttft_ms": 500`, `"ttft_s": 500`, `w.json:11: sources[0].requests.mix[0].class: unknown field "ttft_s", known are name, priority, ttft_ms, gap_ms`},
		{`{"ttft_ms": 500}`, `[]`, `w.json:11: sources[0].requests.mix[0].class: a list, want an object`},
		{`"prompt_tokens": 9`, `"prompt_tokens": 0`, `w.json:11: sources[0].requests.mix[0].lengths: Tokens.Prompt is 0, want at least 1`},
		{`"prompt_tokens": 9`, `"prompt_tokens": 9.0`, `mix[0].lengths.prompt_tokens: 9.0, want a whole number`},
		{`"prompt_tokens": 9`, `"prompt_tokens": 9223372036854775808`, `mix[0].lengths.prompt_tokens: 9223372036854775808, want a whole number`},
		{"}\n", "}\n\n{}\n", `w.json:18: something follows the document`},
		{`"seed": 7`, `"seed": 7, "gateway": {"servers": -1, "service": {"kind": "after", "delay_s": 1}}`, `w.json:3: gateway: GatewayQueue.Servers is -1, want at least 0`},
		{`"seed": 7`, `"seed": 7, "gateway": {"servers": 1}`, `w.json:3: gateway: the field "service" is missing`},
		{`"name": "chat"`, `"client_side": {"classes": []}`, `w.json:6: sources[0].client_side: no Classes in ClientSide`},
		{`"name": "chat"`, `"client_side": {"classes": [[]]}`, `w.json:6: sources[0].client_side: ClientSide.Classes[0]: Regions weights sum to 0`},
		{`"name": "chat"`, `"client_side": {"classes": [[{}], [{}]]}`, `w.json:5: sources[0]: Source.ClientSide has 2 Classes, want 1 or those of the source, 1`},
		{`"name": "chat"`, `"client_side": {"classes": [[{"name": "a", "weight": 1}, {"name": "a", "weight": 1}]]}`, `Regions[1].Name "a" is not unique`},
		{`"name": "chat"`, `"client_side": {"classes": [[{"path": "mobile"}]]}`, `w.json:6: sources[0].client_side.classes[0][0].path: "mobile", want an object with a kind`},
		{`"name": "chat"`, `"client_side": {"classes": [[{"path": {"kind": "moon"}}]]}`, `path.kind: unknown kind "moon", known are parts, same_region, cross_region, mobile`},
		{`"name": "chat"`, `"client_side": {"classes": [[{"path": {"kind": "mobile", "proxy": {"tokens": 2}}}]]}`, `path: unknown field "proxy", there are no others here`},
		{`"name": "chat"`, `"client_side": {"classes": [[{"path": {"kind": "parts", "proxy": {"tokens": -2}}}]]}`, `path: ClientPath.Proxy.Tokens is -2, want at least 0`},
		{`"name": "chat"`, `"client_side": {"classes": [[{"path": {"kind": "parts", "tail": {"kind": "mixed", "delays": []}}}]]}`, `path.tail: MixedDelay weights sum to 0`},
		{`"name": "chat"`, `"client_side": {"classes": [[{"path": {"kind": "parts", "tail": {"kind": "resample", "delays_s": [1, -1]}}}]]}`, `path.tail.delays_s[1]: -1: `},
		{`"name": "chat"`, `"client_side": {"classes": [[{"path": {"kind": "parts", "tail": {"kind": "exponential", "mean_ms": 1}}}]]}`, `path.tail: the field "mean_s" is missing`},
		{`"lengths": {"kind": "tokens"`, `"preamble": {"kind": "tree", "levels": [{"tokens": 1, "fanout": 0}]}, "lengths": {"kind": "tokens"`, `mix[0].preamble: Tree.Levels[0].Fanout is 0`},
		{`"lengths": {"kind": "tokens"`, `"preamble": {"kind": "preambles", "parts": [{"kind": "unshared", "tokens": -1}]}, "lengths": {"kind": "tokens"`, `mix[0].preamble.parts[0]: Unshared is -1, want from 0`},
		{`"lengths": {"kind": "tokens"`, `"preamble": {"kind": "retrieval", "pool": 0, "count": {"kind": "count", "number": 1}, "tokens": {"kind": "count", "number": 1}}, "lengths": {"kind": "tokens"`, `mix[0].preamble: Retrieval.Pool is 0`},
		{`"arrivals": {"kind": "gamma", "rate_per_s": 8, "cv": 2}`, `"arrivals": {"kind": "recorded", "from": {"kind": "tracelab", "path": "x"}}`, `arrivals: RecordedArrivals.From is a workload.TraceLabReplay, want a recording`},
		{`"arrivals": {"kind": "gamma", "rate_per_s": 8, "cv": 2}`, `"arrivals": {"kind": "servegen_recorded", "path": "x", "width_s": -1}`, `width_s: -1: `},
		{`{"kind": "tokens", "prompt_tokens": 9, "output_tokens": 9}`, `{"kind": "servegen_recorded", "path": "x", "client": ""}`, `lengths: ServeGenRecordedLengths.Client is empty`},
		{"  ]\n}\n", "  ]\n", `w.json:16: the file ends in the middle of a value`},
		{`"chat"`, "\"\xff\"", `w.json:6: not UTF-8`},
		{`"chat"`, "\"ch\nat\"", `w.json:6: not JSON`},
		{`"name": "chat"`, `"name": ` + strings.Repeat("[", 200) + strings.Repeat("]", 200), `w.json:6: nested deeper than 100 values`},
	} {
		text := sound
		if c.old == "}\n" { // the last
			text = strings.TrimSuffix(text, c.old) + c.new
		} else if text = strings.Replace(text, c.old, c.new, 1); text == sound {
			t.Fatalf("%s is not in the document", c.old)
		}
		_, err := workload.ReadDocument(strings.NewReader(text), "w.json")
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "workload: w.json:") {
			t.Errorf("%s → %s: error\n%v, want\n%s", c.old, c.new, err, c.want)
		}
	}
	for text, want := range map[string]string{
		``:     "workload: w.json:1: the file ends in the middle of a value",
		`[]`:   "workload: w.json:1: a list, want an object",
		`null`: "workload: w.json:1: null, want an object",
		`{"servesim_workload": 1, "seed": 1, "sources": []}`: "workload: w.json:1: Document.Sources are 0, want from 1 to 32768",
		`{"servesim_workload": 1, "seed": 1, "sources": [{"requests": {"kind": "trace", "path": "a"}}, {"requests": {"kind": "trace", "path": "b"}}]}`:                                                                                     `Document.Sources[1].Name "" is not unique`,
		`{"servesim_workload": 1, "seed": 1, "sources": [{"requests": {"kind": "sessions", "starts": {"kind": "poisson", "rate_per_s": 1}, "lengths": {"kind": "azure_conv_2023"}, "agent": {"calls": {"kind": "count", "number": 2}}}}]}`: `sources[0].requests.agent: the field "result" is missing`,
		`{"servesim_workload": 1, "seed": 1, "sources": [{"requests": {"kind": "sessions", "starts": {"kind": "poisson", "rate_per_s": 1}, "lengths": {"kind": "azure_conv_2023"}, "compaction": {"at_tokens": 5, "keep_tokens": 5}}}]}`:   `sources[0].requests.compaction: Compaction.Keep is 5, want from 0 to below At, 5`,
		`{"servesim_workload": 1, "seed": 1, "sources": [{"requests": {"kind": "sessions", "starts": {"kind": "poisson", "rate_per_s": 1}, "lengths": {"kind": "azure_conv_2023"}, "fresh": true, "compaction": {"at_tokens": 5}}}]}`:      `sources[0].requests: Sessions.Fresh with a Compaction`,
		`{"servesim_workload": 1, "seed": 1, "sources": [{"requests": {"kind": "tracelab", "path": "x", "block_tokens": -1}}]}`:                                                                                                            `sources[0].requests: TraceLabReplay.Recording: TraceLab.BlockTokens is -1`,
		`{"servesim_workload": 1, "seed": 1, "sources": [{"speed": 2, "requests": {"kind": "tracelab", "path": "x"}}]}`:                                                                                                                    `clients that wait for answers have no schedule`,
		`{"servesim_workload": 1, "seed": 1, "sources": [{"requests": {"kind": "trace"}}]}`:                                                                                                                                                `sources[0].requests: the field "path" is missing`,
		`{"servesim_workload": 1, "seed": 1, "sources": [{"first": 1, "requests": {"kind": "clients", "concurrency": 1, "requests": 1, "lengths": {"kind": "azure_conv_2023"}}}]}`:                                                         `clients that wait for answers have no schedule`,
		`{"servesim_workload": 1, "seed": 1, "sources": [{"requests": {"kind": "clients", "concurrency": 2, "requests": 1, "lengths": {"kind": "azure_conv_2023"}}}]}`:                                                                     `sources[0].requests: Clients.Concurrency is 2 of 1 Requests`,
	} {
		if _, err := workload.ReadDocument(strings.NewReader(text), "w.json"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", text, err, want)
		}
	}
	var d workload.Document
	if err := json.Unmarshal([]byte(`{"servesim_workload": 3}`), &d); err == nil || err.Error() != "workload: document:1: servesim_workload: version 3, this reads 1" {
		t.Errorf("through encoding/json: %v", err)
	}
	if _, err := workload.ReadDocument(broken{}, "w.json"); err == nil || err.Error() != "workload: w.json: broken" {
		t.Errorf("an input that cannot be read: %v", err)
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("broken") }

// Faults that only other files, or a run, can show.
func TestDocumentRunFaults(t *testing.T) {
	feedback := parsed(t, `{"servesim_workload": 1, "seed": 1, "sources": [{"requests": {"kind": "clients", "concurrency": 1, "requests": 1, "lengths": {"kind": "azure_conv_2023"}}}]}`)
	if _, err := workload.Collect(feedback.Requests()); err == nil || !strings.Contains(err.Error(), "the requests of the document depend on answers: Begin makes a run of it") {
		t.Errorf("Requests of a closed loop: %v", err)
	}
	r, err := feedback.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if q, err := workload.Collect(r.Requests()); len(q) != 1 || err != nil {
		t.Errorf("requests %v, %v", q, err)
	}
	if _, err := workload.Collect(r.Requests()); err == nil || !strings.Contains(err.Error(), "DocumentRun.Requests is used twice") {
		t.Errorf("a second use: %v", err)
	}
	for path, want := range map[string]string{
		`"requests": {"kind": "azure", "path": "absent"}`: "absent",
		`"requests": {"kind": "trace", "path": "absent"}`: "absent",
		`"requests": {"kind": "open", "arrivals": {"kind": "poisson", "rate_per_s": 1}, "mix": [{"lengths": {"kind": "recorded", "from": {"kind": "azure", "path": "absent"}}}]}`: "RecordedLengths.From",
		`"requests": {"kind": "open", "arrivals": {"kind": "resampled_gaps", "from": {"kind": "azure", "path": "absent"}}, "mix": [{"lengths": {"kind": "azure_conv_2023"}}]}`:    "ResampledGaps.From",
	} {
		d := parsed(t, `{"servesim_workload": 1, "seed": 1, "sources": [{`+path+`}]}`)
		if _, err := workload.Collect(d.Requests()); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", path, err, want)
		}
	}
}

// The reader never panics, and what it reads is written and read as the same.
func FuzzDocument(f *testing.F) {
	for _, path := range []string{everyKind} {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add(sound)
	f.Add(recordings)
	f.Fuzz(func(t *testing.T, text string) {
		d, err := workload.ReadDocument(strings.NewReader(text), "w.json")
		if err != nil {
			if !strings.HasPrefix(err.Error(), "workload: w.json:") {
				t.Errorf("the error names no file: %v", err)
			}
			return
		}
		again, err := workload.ReadDocument(strings.NewReader(d.String()), "w.json")
		if err != nil {
			t.Fatalf("%s\nis written as\n%s\nwhich cannot be read: %v", text, d, err)
		}
		if !reflect.DeepEqual(d, again) || again.String() != d.String() {
			t.Fatalf("%s\nis written as\n%s\nwhich is not the same", text, d)
		}
		line, err := d.MarshalJSON()
		if err != nil || !json.Valid(line) {
			t.Fatalf("%s\nis written as\n%s\n%v", text, line, err)
		}
	})
}
