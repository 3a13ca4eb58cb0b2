package workload

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"

	"servesim/sim"
)

// RAGPulse is a recording in the format of the RAGPulse trace (Wang et al.,
// 2025) of a question-answering service with retrieval: a file of JSON lines,
// plain or gzip. Each row is an object with the keys timestamp (seconds),
// input_length, output_length, hash_ids and session_id; numbers may stand in
// quotes, and other keys are ignored. hash_ids is an object of lists, one for
// each [RAGKind], of the ids of the parts of the prompt. Five more files tell
// the number of tokens of each id.
//
// Requests replays it: a row's arrival is its timestamp minus that of the
// first row, and its ID the number of the row, from 0. Rows without prompt or
// output are dropped and counted by reason; everything else that is wrong ends
// the sequence with an error that names file, line, key and value. The clock
// is coarse, and one row of the public trace is out of order: see Spread and
// Sort. Sessions are replayed in open loop, when they were recorded.
//
// # Prefixes
//
// A prompt is its parts in the order of RAGKind, then what the parts leave of
// input_length: the words between them, a few tokens, which are not shared.
// Request.Prefix is the chain of its blocks of BlockTokens tokens under Path as
// salt. Parts are found again behind equal parts only: what engines that share
// passages in any order find is more, and is in Rows.
type RAGPulse struct {
	// Path names the file, and the input in errors, and salts the prefixes.
	Path string `doc:"path"`
	// Open opens the input, once for each iteration. nil opens Path.
	Open func() (io.ReadCloser, error) `doc:"-"`
	// Side opens the file of token lengths of a kind, such as "1_sys_prompt".
	// nil opens the file beside Path with that in place of "0_trace" in its
	// name, or that with or without ".gz".
	Side func(name string) (io.ReadCloser, error) `doc:"-"`
	// Class is the class of all requests.
	Class sim.Class `doc:"-"`
	// BlockTokens is the number of tokens of a block of the prefixes. 0 means
	// [sim.DefaultBlockTokens].
	BlockTokens int `doc:"block_tokens,opt"`
	// NoPrefix leaves hash_ids out and does not open the files of lengths.
	NoPrefix bool `doc:"no_prefix,opt"`
	// Spread moves the i-th of n requests with equal timestamps, from 0, by
	// i·Spread/n, for which it holds the requests of one tick. Requests that
	// would be overtaken by the next tick are an error. 0 leaves them together.
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

// RAGKind is the kind of a part of a prompt.
type RAGKind int

// The parts of a prompt, in its order.
const (
	SystemPrompt RAGKind = iota
	Passages
	History
	WebSearch
	UserInput

	// RAGKinds is the number of kinds.
	RAGKinds
)

// ragKinds are the names of the kinds: in hash_ids, of the file of lengths,
// and of the ids in there.
var ragKinds = [RAGKinds]struct{ list, file, id string }{
	SystemPrompt: {"sys_prompt", "1_sys_prompt", "sys_prompt_id"},
	Passages:     {"passages_ids", "2_passages", "passage_id"},
	History:      {"history", "3_history", "history_id"},
	WebSearch:    {"web_search", "5_web_search", "web_search_id"},
	UserInput:    {"user_input", "4_user_input", "user_input_id"},
}

// String returns the name of the list in hash_ids.
func (k RAGKind) String() string {
	if k < 0 || k >= RAGKinds {
		return fmt.Sprintf("RAGKind(%d)", int(k))
	}
	return ragKinds[k].list
}

// RAGRow is a row of the recording.
type RAGRow struct {
	At      time.Duration // the timestamp
	Prompt  int           // tokens
	Output  int           // tokens
	Session string
	Parts   []RAGPart // in the order of the prompt; valid until the next row
}

// RAGPart is a part of a prompt.
type RAGPart struct {
	Kind   RAGKind
	ID     uint64 // unique in its kind
	Tokens int
}

// Validate reports an invalid field.
func (p RAGPulse) Validate() error {
	switch {
	case p.BlockTokens < 0 || p.BlockTokens > maxTokens:
		return fmt.Errorf("RAGPulse.BlockTokens is %d, want 0 to %d", p.BlockTokens, maxTokens)
	case p.Spread < 0:
		return fmt.Errorf("RAGPulse.Spread is %v, want at least 0", p.Spread)
	}
	return nil
}

// Classes returns the one class of the recording, for sim.Config.Classes.
func (p RAGPulse) Classes() []sim.Class { return []sim.Class{p.Class} }

// Requests yields the requests of the recording as they are read. Each
// iteration opens the input anew.
func (p RAGPulse) Requests() iter.Seq2[sim.Request, error] {
	if err := p.Validate(); err != nil {
		return failed[sim.Request](err)
	}
	rec := p.recording(nil)
	if !p.NoPrefix {
		rec.block = cmp.Or(p.BlockTokens, sim.DefaultBlockTokens)
	}
	return rec.requests()
}

// Rows yields the rows in the order of the file, also those without prompt or
// output. Parts are empty with NoPrefix. Counts, Spread and Sort do nothing
// here.
func (p RAGPulse) Rows() iter.Seq2[RAGRow, error] {
	return func(yield func(RAGRow, error) bool) {
		if err := p.Validate(); err != nil {
			fail(yield, err)
			return
		}
		var seen RAGRow
		err := p.recording(&seen).rows(new(Counts), func(r *row) (bool, error) {
			seen.At, seen.Prompt, seen.Output = time.Duration(r.at), r.prompt, r.output
			return yield(seen, nil), nil
		})
		if err != nil {
			fail(yield, err)
		}
	}
}

// recording reads rows, also into seen if it is not nil.
func (p RAGPulse) recording(seen *RAGRow) recording {
	return recording{
		path: p.Path, open: p.Open, longest: maxJSONLine, clock: "timestamp",
		sort: p.Sort, skip: p.SkipMalformed, spread: p.Spread, counts: p.Counts,
		begin: func(*lines) (func(line []byte, r *row) error, error) {
			rows := &ragRow{RAGPulse: p, seen: seen}
			rows.BlockTokens = cmp.Or(p.BlockTokens, sim.DefaultBlockTokens)
			if p.NoPrefix {
				return rows.parse, nil
			}
			for kind := range RAGKinds {
				path, in, err := p.openSide(ragKinds[kind].file)
				if err != nil {
					return nil, err
				}
				rows.lengths[kind], err = readSide(path, in, ragKinds[kind].id)
				in.Close()
				if err != nil {
					return nil, err
				}
			}
			return rows.parse, nil
		},
	}
}

// ReadRAGLengths reads a file of token lengths, plain or gzip: the tokens of
// each id. What is wrong with it is an error that names file, line, key and
// value.
func ReadRAGLengths(path string) (map[uint64]int, error) {
	in, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	lengths, err := readSide(path, in, "")
	if err != nil {
		return nil, fmt.Errorf("workload: %w", err)
	}
	return lengths, nil
}

// readSide reads the token lengths of ids of a name; empty is any, but one.
func readSide(path string, in io.Reader, idName string) (map[uint64]int, error) {
	l, err := newLines(path, in, maxJSONLine)
	if err != nil {
		return nil, err
	}
	lengths := map[uint64]int{}
	err = l.each(func(line []byte) (bool, error) {
		id, tokens, err := parseSide(line, &idName)
		if err != nil {
			return false, l.errorf("%w", err)
		}
		if _, ok := lengths[id]; ok {
			return false, l.errorf("%s %d is there twice", idName, id)
		}
		lengths[id] = tokens
		return true, nil
	})
	return lengths, err
}

// openSide opens a file of token lengths and returns its name for errors.
func (p RAGPulse) openSide(name string) (string, io.ReadCloser, error) {
	if p.Side != nil {
		in, err := p.Side(name)
		return name, in, err
	}
	dir, base := filepath.Split(p.Path)
	if !strings.Contains(base, ragTrace) {
		return "", nil, fmt.Errorf("%s: the name has no %s to find the file %s by (NoPrefix reads without, Side names it)", p.Path, ragTrace, name)
	}
	path := dir + strings.Replace(base, ragTrace, name, 1)
	in, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		other, ok := strings.CutSuffix(path, ".gz")
		if !ok {
			other = path + ".gz"
		}
		if f, otherErr := os.Open(other); otherErr == nil {
			return other, f, nil
		}
		return "", nil, fmt.Errorf("%w (NoPrefix reads without)", err)
	}
	return path, in, err
}

// ragTrace is in the name of the file of rows.
const ragTrace = "0_trace"
