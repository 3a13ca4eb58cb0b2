package simtest_test

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"servesim/costmodel"
	"servesim/sim"
	"servesim/sim/simtest"
)

func TestShippedCostModelsConform(t *testing.T) {
	simtest.TestCostModel(t, costmodel.Linear{Fixed: time.Millisecond, PerPromptToken: time.Microsecond, PerContextToken: 1})
	simtest.TestCostModel(t, costmodel.Roofline{
		SharedBytes: 4e6, ContextBytesPerRequest: 1e5, OpsPerPosition: 2e6, Bandwidth: 1e11, Rate: 1e12,
		Experts: costmodel.Experts{Count: 64, PerPosition: 4, Bytes: 1e5},
	})
	for _, model := range []string{"Llama-3.1-8B", "Qwen3-32B"} {
		setup, err := costmodel.NewSetup(model, "H100")
		if err != nil {
			t.Fatal(err)
		}
		m, err := costmodel.NewTransformer(setup)
		if err != nil {
			t.Fatal(err)
		}
		simtest.TestCostModel(t, m)
	}
}

// good is a cost that conforms.
func good(b sim.Batch) time.Duration {
	n := 1000 + 10*b.Positions + b.Context + b.Padding.Rows + b.Padding.PromptTokens
	for _, c := range b.Prefills {
		n += 100 + 20*c.Tokens + c.Context
	}
	return time.Duration(n)
}

func TestFaultyCostModelsFail(t *testing.T) {
	var calls int
	var chunks []sim.Chunk
	var sink []int
	memory := map[*sim.Chunk]time.Duration{}
	for _, c := range []struct {
		name string
		cost sim.CostFunc
		want string // "" conforms
	}{
		{"good", good, ""},
		{"free when idle", func(b sim.Batch) time.Duration { return good(b) - 1000 }, ""},
		{"negative", func(b sim.Batch) time.Duration { return good(b) - 1005 }, "a step of -5 ns for 0 decodes"},
		{"invalid", func(b sim.Batch) time.Duration {
			if b.Decodes > 8000 {
				return sim.InvalidDuration
			}
			return good(b)
		}, "a step of -9223372036854775808 ns for 16384 decodes"},
		{"zero", func(b sim.Batch) time.Duration { return good(b) / 1100 }, "a step of 0 ns for 1 decodes"},
		{"counts calls", func(b sim.Batch) time.Duration { calls++; return good(b) + time.Duration(calls) }, "then"},
		{"decodes", func(b sim.Batch) time.Duration {
			if b.Decodes > 64 {
				b.Positions /= 2
			}
			return good(b)
		}, "another decode is cheaper"},
		{"large batches", func(b sim.Batch) time.Duration {
			if b.Decodes >= 500 {
				return good(sim.Batch{Decodes: 1, Positions: 1, Context: 500_000})
			}
			return good(b)
		}, "twice the decodes are cheaper"},
		{"context", func(b sim.Batch) time.Duration { b.Context = -b.Context; return 1<<40 + good(b) }, "more context is cheaper"},
		{"chunk", func(b sim.Batch) time.Duration {
			if n := b.PrefillTokens(); n > 0 && n%2 == 0 {
				return 10_000 + good(b)
			}
			return good(b)
		}, "a longer chunk is cheaper"},
		{"long chunk", func(b sim.Batch) time.Duration {
			if len(b.Prefills) > 0 && b.Prefills[0].Tokens >= 1000 {
				return 5000
			}
			return good(b)
		}, "twice the chunk is cheaper"},
		{"chunk context", func(b sim.Batch) time.Duration {
			if len(b.Prefills) > 0 && b.Prefills[0].Context > 0 {
				return good(b) - time.Duration(len(b.Prefills)+b.Prefills[0].Context)
			}
			return good(b)
		}, "a chunk behind more context is cheaper"},
		{"last", func(b sim.Batch) time.Duration {
			return 10_000 + good(b) - time.Duration(b.Samples()-b.Decodes)
		}, "the last chunk of a prompt is cheaper"},
		{"chunks", func(b sim.Batch) time.Duration {
			if len(b.Prefills) > 0 {
				return 1<<40 - time.Duration(len(b.Prefills)*1000) + good(b)
			}
			return good(b)
		}, "another chunk is cheaper"},
		{"padding", func(b sim.Batch) time.Duration { b.Padding.Rows *= -9; return good(b) + 100 }, "more padding is cheaper"},
		{"changes chunks", func(b sim.Batch) time.Duration {
			for i := range b.Prefills {
				b.Prefills[i].Context = 0
			}
			return good(b)
		}, "the model changes the chunks"},
		{"remembers", func(b sim.Batch) time.Duration {
			if len(b.Prefills) == 0 {
				return good(b)
			}
			key := &b.Prefills[0]
			if memory[key] == 0 {
				memory[key] = good(b)
			}
			chunks = b.Prefills // or the address might be used again
			return memory[key]
		}, "the model keeps the chunks of a call"},
		{"allocates", func(b sim.Batch) time.Duration { sink = make([]int, b.Decodes); return good(b) }, "allocations for 64 decodes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := strings.Join(failures(func(t testing.TB) { simtest.TestCostModel(t, c.cost) }), "\n")
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("got %.2000q, want %q", got, c.want)
			}
		})
	}
	runtime.KeepAlive(chunks)
	runtime.KeepAlive(sink)
}
