package workload

import (
	"cmp"
	"fmt"
	"io"
	"iter"
	"time"

	"servesim/sim"
)

// Mooncake is a recording in the format of Mooncake's public traces (Qin et
// al., FAST 2025): a file of JSON lines, plain or gzip. Each row is an object
// with the keys timestamp (a number of milliseconds), input_length and
// output_length (whole numbers of tokens), and hash_ids (a list of whole
// numbers that name the blocks of the prompt). Numbers may stand in quotes.
// Other keys are ignored. [VLLMTimedTrace] and [QwenBailian] are the same with
// other units.
//
// Requests replays it: a row's arrival is its timestamp minus that of the
// first row, to the nanosecond, and its ID the number of the row, from 0. Rows
// without prompt or output are dropped and counted by reason; everything else
// that is wrong ends the sequence with an error that names file, line, key and
// value. Equal rows are requests each.
//
// # Prefixes
//
// hash_ids has an id for each block, perhaps also for a last one that is not
// full: ⌈input_length/BlockTokens⌉ or ⌊input_length/BlockTokens⌋ in all, which
// is checked. Engines share full blocks only, so the id of a partial block
// becomes no hash: Request.Prefix has ⌊input_length/BlockTokens⌋, and up to
// BlockTokens - 1 tokens at the end of a prompt are never found in a cache.
//
// An id is a node of the prefix tree of its file, or names the content of its
// block. Prefix is the chain of ids under Path as salt, so that recordings
// replayed side by side share nothing, however their ids coincide.
// Request.PrefixBlock is BlockTokens; the engine converts to its own block
// size.
//
// # Ticks
//
// The timestamps of the conversation recording stand on ticks 3 s apart, with
// 10 rows each on average. By default the rows of a tick arrive together, as
// recorded; Spread sets them apart.
type Mooncake struct {
	// Path names the file, and the input in errors, and salts the prefixes.
	Path string `doc:"path"`
	// Open opens the input, once for each iteration. nil opens Path.
	Open func() (io.ReadCloser, error) `doc:"-"`
	// Class is the class of all requests.
	Class sim.Class `doc:"-"`
	// Unit is that of a timestamp: a second, a millisecond, a microsecond or a
	// nanosecond. 0 means a millisecond. Dates with a time of day need none.
	Unit time.Duration `doc:"unit_ms,opt"`
	// BlockTokens is the number of tokens that an id stands for. 0 means 512.
	BlockTokens int `doc:"block_tokens,opt"`
	// LooseIDs accepts rows whose ids are not one per block, or that have
	// none: what is behind the last id is not shared, and ids behind the
	// prompt are left out.
	LooseIDs bool `doc:"loose_ids,opt"`
	// PartialIDs keeps the hash of a last block that is not full, so that what
	// counts or writes requests sees every id. It is not for a run: an engine
	// would take the block, once it is full, for the recorded one.
	PartialIDs bool `doc:"partial_ids,opt"`
	// NoPrefix leaves hash_ids out, whatever they are; rows need not have them.
	NoPrefix bool `doc:"no_prefix,opt"`
	// Type keeps the rows with this value of the key type. Empty keeps all.
	Type string `doc:"type,opt"`
	// Spread moves the i-th of n requests with equal timestamps, from 0, by
	// i·Spread/n, for which it holds the requests of one tick: with the width
	// of a tick, they come evenly over it. Requests that would be overtaken by
	// the next tick are an error. 0 leaves them together.
	Spread time.Duration `doc:"spread_s,opt"`
	// Sort puts rows in order of time, equal ones in order of the file, for
	// which it holds the whole file. By default a row before its predecessor
	// is an error.
	Sort bool `doc:"sort,opt"`
	// SkipMalformed drops rows that cannot be read. By default one is an error.
	SkipMalformed bool `doc:"skip_malformed,opt"`
	// Counts, if not nil, is what an iteration has done so far: it is reset
	// at its start.
	Counts *Counts `doc:"-"`
}

// Tokens in a block of public recordings.
const (
	mooncakeBlock = 512
	bailianBlock  = 16
)

// QwenBailian is a recording in the format of Alibaba's anonymised Qwen traces
// (Wang et al., ATC 2025): as [Mooncake], with timestamps in seconds and blocks
// of 16 tokens. Type chooses among the kinds of requests. The rows of one chat
// (chat_id, parent_chat_id, turn) are replayed when they were recorded, in
// open loop: a turn does not wait for the answer before it.
func QwenBailian(path string) Mooncake {
	return Mooncake{Path: path, Unit: time.Second, BlockTokens: bailianBlock}
}

// VLLMTimedTrace is a recording as vLLM's benchmark reads it with
// --dataset-name timed_trace: as [Mooncake], with the defaults of that program,
// which are timestamps in seconds and blocks of 16 tokens. Unit stands for
// --timed-trace-sec-multiplier, BlockTokens for --timed-trace-chunk-hash-size.
func VLLMTimedTrace(path string) Mooncake {
	return Mooncake{Path: path, Unit: time.Second, BlockTokens: bailianBlock}
}

// Validate reports an invalid field.
func (m Mooncake) Validate() error {
	switch {
	case m.BlockTokens < 0 || m.BlockTokens > maxTokens:
		return fmt.Errorf("Mooncake.BlockTokens is %d, want 0 to %d", m.BlockTokens, maxTokens)
	case m.Spread < 0:
		return fmt.Errorf("Mooncake.Spread is %v, want at least 0", m.Spread)
	}
	return checkUnit("Mooncake.Unit", m.Unit)
}

// Classes returns the one class of the recording, for sim.Config.Classes.
func (m Mooncake) Classes() []sim.Class { return []sim.Class{m.Class} }

// Requests yields the requests of the recording as they are read. Each
// iteration opens the input anew.
func (m Mooncake) Requests() iter.Seq2[sim.Request, error] {
	if err := m.Validate(); err != nil {
		return failed[sim.Request](err)
	}
	m.Unit = cmp.Or(m.Unit, time.Millisecond)
	m.BlockTokens = cmp.Or(m.BlockTokens, mooncakeBlock)
	rec := recording{
		path: m.Path, open: m.Open, longest: maxJSONLine, clock: "timestamp",
		sort: m.Sort, skip: m.SkipMalformed, spread: m.Spread, counts: m.Counts,
		begin: func(*lines) (func(line []byte, r *row) error, error) {
			return (&mooncakeRow{Mooncake: m}).parse, nil
		},
	}
	if !m.NoPrefix {
		rec.block = m.BlockTokens
	}
	return rec.requests()
}
