package kv_test

import (
	"encoding/json"
	"slices"
	"testing"

	"servesim/sim/kv"
)

// functions adapts the kinds "math", "free_queue" and "block_manager": each
// reads the input of a row and returns what the package says.
var functions = map[string]func(*testing.T, json.RawMessage) map[string]any{
	"free_queue":                freeQueue,
	"prefix_hit_rate":           prefixHitRate,
	"hash_uses_salt":            hashUsesSalt,
	"sliding_window_hit_blocks": slidingHit,
	"sliding_window_released":   slidingReleased,
	"num_blocks":                numBlocks,
	"num_blocks_from_memory":    numBlocksFromMemory,
	"max_concurrency":           maxConcurrency,
	"max_model_len_for_memory":  maxModelLen,
	"kv_transfer_blocks":        transferBlocks,
	"kv_transfer_layerwise":     transferLayerwise,
	"can_allocate":              canAllocate,
	"can_append":                canAppend,
	"append_slots":              appendSlots,
	"swap_roundtrip":            swapRoundtrip,
	"can_swap_in":               canSwapIn,
}

func freeQueue(t *testing.T, input json.RawMessage) map[string]any {
	var in struct {
		Initial []kv.Block
		Ops     [][]json.RawMessage
	}
	parse(t, input, &in)
	var l kv.FreeList
	for _, b := range in.Initial {
		l.Push(b)
	}
	pop := func() any {
		if b, ok := l.Pop(); ok {
			return b
		}
		return "error"
	}
	results := []any{}
	for _, op := range in.Ops {
		var name string
		parse(t, op[0], &name)
		var b kv.Block
		var some []kv.Block
		var result any
		switch name {
		case "pop":
			result = pop()
		case "pop_n":
			parse(t, op[1], &b)
			popped := []any{}
			for range b {
				popped = append(popped, pop())
			}
			result = popped
		case "remove":
			parse(t, op[1], &b)
			l.Remove(b)
		case "append":
			parse(t, op[1], &b)
			l.Push(b)
		case "append_n":
			parse(t, op[1], &some)
			for _, b := range some {
				l.Push(b)
			}
		case "list":
			result = list(slices.Collect(l.All()))
		default:
			t.Fatalf("unknown operation %q", name)
		}
		results = append(results, result)
	}
	return map[string]any{"results": results, "free": l.Len()}
}

func prefixHitRate(t *testing.T, input json.RawMessage) map[string]any {
	var in struct {
		Window       int `json:"window_requests"`
		Observations [][3]int
	}
	parse(t, input, &in)
	r := kv.HitRate{Window: in.Window}
	for _, o := range in.Observations {
		r.Add(o[0], o[1], o[2])
	}
	return map[string]any{"hit_rate": r.Rate(), "requests": r.Requests(), "queries": r.Queried(), "hits": r.Hits()}
}

func hashUsesSalt(t *testing.T, input json.RawMessage) map[string]any {
	var in struct{ Start, End int }
	parse(t, input, &in)
	tokens := make([]int, in.End-in.Start)
	hash := func(salt string) kv.Hash { return kv.HashBlock(1, in.Start, tokens, salt) }
	return map[string]any{"uses_salt": hash("a") != hash("b")}
}

func slidingHit(t *testing.T, input json.RawMessage) map[string]any {
	var in struct {
		BlockSize int `json:"block_size"`
		Window    int
		Cached    []bool
	}
	parse(t, input, &in)
	return map[string]any{"blocks": kv.WindowHit(in.Cached, in.Window, in.BlockSize)}
}

func slidingReleased(t *testing.T, input json.RawMessage) map[string]any {
	var in struct {
		BlockSize int `json:"block_size"`
		Window    int
		Computed  int
	}
	parse(t, input, &in)
	return map[string]any{"released_blocks": kv.WindowReleased(in.Computed, in.Window, in.BlockSize)}
}

// layout is the part of an input that describes the KV state.
type layout struct {
	Layers     int
	BlockSize  int `json:"block_size"`
	KVHeads    int `json:"kv_heads"`
	HeadDim    int `json:"head_dim"`
	DTypeBytes int `json:"dtype_bytes"`
	MLA        bool
}

func (l layout) kv() kv.Layout {
	return kv.Layout{BlockTokens: l.BlockSize, Layers: l.Layers, KVHeads: l.KVHeads, HeadDim: l.HeadDim, DTypeBytes: l.DTypeBytes, Latent: l.MLA}
}

func numBlocks(t *testing.T, input json.RawMessage) map[string]any {
	var in struct {
		layout
		KVBytes  int64 `json:"kv_bytes"`
		Override int
		PerRank  []int `json:"per_rank"`
	}
	parse(t, input, &in)
	perRank := in.PerRank
	if perRank == nil {
		perRank = []int{in.kv().Blocks(in.KVBytes)}
	}
	return map[string]any{"num_blocks": kv.NumBlocks(in.Override, perRank...)}
}

func numBlocksFromMemory(t *testing.T, input json.RawMessage) map[string]any {
	var in struct {
		layout
		Total        int64 `json:"total_bytes"`
		Utilization  float64
		Weights      int64 `json:"weights_bytes"`
		Activations  int64 `json:"activation_peak_bytes"`
		NonFramework int64 `json:"non_framework_bytes"`
	}
	parse(t, input, &in)
	m := kv.Memory{Total: in.Total, Utilization: in.Utilization, Weights: in.Weights, Activations: in.Activations, Runtime: in.NonFramework}
	l := in.kv()
	return map[string]any{"page_bytes": l.PageBytes(), "block_bytes": l.BlockBytes(), "num_blocks": l.Blocks(m.KVBytes())}
}

func maxConcurrency(t *testing.T, input json.RawMessage) map[string]any {
	var in struct {
		NumBlocks   int       `json:"num_blocks"`
		BlockSize   int       `json:"block_size"`
		MaxModelLen int       `json:"max_model_len"`
		MaxBatched  int       `json:"max_num_batched_tokens"`
		Groups      kv.Groups // {"kind": "sliding", "window": n} or {"kind": "full"}
	}
	parse(t, input, &in)
	return map[string]any{"max_concurrency": in.Groups.Concurrency(in.NumBlocks, in.MaxModelLen, in.MaxBatched, in.BlockSize)}
}

func maxModelLen(t *testing.T, input json.RawMessage) map[string]any {
	var in struct {
		layout
		KVBytes   int64 `json:"kv_bytes"`
		Requested int
	}
	parse(t, input, &in)
	return map[string]any{"max_model_len": in.kv().LongestContext(in.KVBytes, in.Requested)}
}

func transferBlocks(t *testing.T, input json.RawMessage) map[string]any {
	var in struct {
		layout
		Prompt int `json:"prompt_tokens"`
		Hit    int `json:"local_hit_tokens"`
	}
	parse(t, input, &in)
	x := in.kv().Transfer(in.Prompt, in.Hit)
	return map[string]any{"tokens": x.Tokens, "blocks": x.Blocks, "bytes_token_exact": x.TokenBytes, "bytes_block_granular": x.BlocksBytes}
}

func transferLayerwise(t *testing.T, input json.RawMessage) map[string]any {
	var in struct {
		Prefill  float64 `json:"prefill_seconds"`
		Transfer float64 `json:"transfer_seconds"`
		Layers   int
	}
	parse(t, input, &in)
	end := kv.LayerwiseEnd(in.Prefill, in.Transfer, in.Layers)
	// One layer cannot overlap with itself: the serial case.
	return map[string]any{"serial_end": kv.LayerwiseEnd(in.Prefill, in.Transfer, 1), "layerwise_end": end, "exposed": end - in.Prefill}
}

func canAllocate(t *testing.T, input json.RawMessage) map[string]any {
	var in struct {
		BlockSize int `json:"block_size"`
		NumBlocks int `json:"num_blocks"`
		Watermark float64
		Free      int `json:"free_blocks"`
		Tokens    int
	}
	parse(t, input, &in)
	p := poolWith(in.NumBlocks, in.BlockSize, in.Free)
	return map[string]any{"status": p.CanTake(p.Blocks(in.Tokens), kv.WatermarkBlocks(in.Watermark, in.NumBlocks)).String()}
}

// poolWith returns a pool of which so many blocks are free.
func poolWith(total, blockTokens, free int) *kv.Pool {
	p := kv.NewPool(total, 0, blockTokens)
	p.Take(total - free)
	return &p
}

func canAppend(t *testing.T, input json.RawMessage) map[string]any {
	var in struct {
		BlockSize int `json:"block_size"`
		Tokens    int `json:"tokens_with_kv"`
		NewTokens int `json:"new_tokens"`
		Lookahead int
		Free      int `json:"free_blocks"`
	}
	parse(t, input, &in)
	p := poolWith(in.Free+1, in.BlockSize, in.Free)
	return map[string]any{"can_append": p.CanAppend(in.Tokens, in.NewTokens+in.Lookahead)}
}

func appendSlots(t *testing.T, input json.RawMessage) map[string]any {
	var in struct {
		BlockSize int `json:"block_size"`
		Prompt    int `json:"prompt_tokens"`
		NewTokens int `json:"new_tokens"`
		Lookahead int
	}
	parse(t, input, &in)
	return map[string]any{"blocks_consumed": kv.GrowthBlocks(in.Prompt, in.NewTokens+in.Lookahead, in.BlockSize)}
}

// swapped is the input of both swap functions.
type swapped struct {
	BlockSize    int `json:"block_size"`
	NumBlocks    int `json:"num_blocks"`
	NumCPUBlocks int `json:"num_cpu_blocks"`
	Watermark    float64
	Lookahead    int
}

func (s swapped) pools() (device, host kv.Pool, watermark int) {
	return kv.NewPool(s.NumBlocks, 0, s.BlockSize), kv.NewPool(s.NumCPUBlocks, 0, s.BlockSize), kv.WatermarkBlocks(s.Watermark, s.NumBlocks)
}

func swapRoundtrip(t *testing.T, input json.RawMessage) map[string]any {
	var in struct {
		swapped
		Prompt int `json:"prompt_tokens"`
		Output int `json:"output_tokens"` // sampled, their KV not stored yet
	}
	parse(t, input, &in)
	device, host, watermark := in.pools()
	n := device.Blocks(in.Prompt)
	device.Take(n)
	got := map[string]any{"device_blocks": device.Owned(), "can_swap_out": host.CanSwap(in.Prompt, in.Output, 0) == kv.Now}
	host.Swap(&device, n)
	got["device_freed"], got["host_taken"] = n-device.Owned(), host.Owned()
	got["can_swap_in"] = device.CanSwap(in.Prompt, in.Output+in.Lookahead, watermark).String()
	device.Swap(&host, n)
	got["device_taken_back"] = device.Owned()
	return got
}

func canSwapIn(t *testing.T, input json.RawMessage) map[string]any {
	var in struct {
		swapped
		Prompt int `json:"swapped_prompt_tokens"`
		Other  int `json:"other_prompt_tokens"`
	}
	parse(t, input, &in)
	device, _, watermark := in.pools()
	const sampled = 1 // one token was sampled before the swap, as in the source
	ask := func() string { return device.CanSwap(in.Prompt, sampled+in.Lookahead, watermark).String() }
	before := ask()
	device.Take(device.Blocks(in.Other))
	return map[string]any{"before_other": before, "after_other": ask()}
}
