package workload

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"time"

	"servesim/sim"
	"servesim/sim/kv"
)

// MooncakeWriter writes requests as a recording that [Mooncake] reads.
//
// Blocks are numbered in order of appearance, as in the public traces, for
// which it holds each distinct hash. A last block that is not full has an id of
// its own, or that of its hash if the requests were read with PartialIDs.
// Requests that share nothing have ids of their own.
type MooncakeWriter struct {
	W io.Writer
	// Origin is the timestamp that is written for arrival 0, at least 0.
	Origin time.Duration
	// BlockTokens is the number of tokens that an id stands for, to which
	// chains of other blocks are converted as [kv.Convert] does. Larger blocks
	// than those of the chains lose what smaller ones share. 0 means 512, and
	// that chains of smaller blocks are an error.
	BlockTokens int
	// PartialIDs takes the hash behind those of the full blocks for that of
	// the last block, which is not full.
	PartialIDs bool
	// WholeMillis rounds arrivals to whole milliseconds, as in the public
	// traces. By default they are written exactly, with decimals if need be.
	WholeMillis bool
	// Lossy leaves out what the format has no place for, such as deadlines. By
	// default a request that has it is an error.
	Lossy bool
}

// Validate reports an invalid field.
func (w MooncakeWriter) Validate() error {
	switch {
	case w.BlockTokens < 0 || w.BlockTokens > maxTokens:
		return fmt.Errorf("MooncakeWriter.BlockTokens is %d, want 0 to %d", w.BlockTokens, maxTokens)
	case w.Origin < 0:
		return fmt.Errorf("MooncakeWriter.Origin is %v, want at least 0", w.Origin)
	}
	return nil
}

// Write writes the requests up to the first error. Arrivals must not go back.
func (w MooncakeWriter) Write(requests iter.Seq2[sim.Request, error]) error {
	if err := w.Validate(); err != nil {
		return fmt.Errorf("workload: %w", err)
	}
	asked := w.BlockTokens > 0
	w.BlockTokens = cmp.Or(w.BlockTokens, mooncakeBlock)
	out := bufio.NewWriter(w.W)
	ids := numbering{ids: map[kv.Hash]int64{}}
	var line []byte
	var chain []kv.Hash
	err := eachInOrder(requests, func(q *sim.Request) (err error) {
		if len(q.Prefix) > 0 && (q.PrefixBlock < 1 || q.PrefixBlock < w.BlockTokens && !asked) {
			return fmt.Errorf("workload: request %d has a prefix in blocks of %d tokens, of which those of %d lose parts; BlockTokens says which to write",
				q.ID, q.PrefixBlock, w.BlockTokens)
		}
		if err := w.lost(q); err != nil && !w.Lossy {
			return err
		}
		if chain, err = w.chain(chain[:0], q); err != nil {
			return fmt.Errorf("workload: request %d: %w", q.ID, err)
		}
		at, err := sum(w.Origin, q.Arrival)
		if err != nil {
			return fmt.Errorf("workload: request %d %w", q.ID, err)
		}
		if w.WholeMillis {
			at = int64(time.Duration(at).Round(time.Millisecond))
		}
		line = append(line[:0], `{"timestamp": `...)
		line = appendMillis(line, at)
		line = append(line, `, "input_length": `...)
		line = strconv.AppendInt(line, int64(q.Prompt), 10)
		line = append(line, `, "output_length": `...)
		line = strconv.AppendInt(line, int64(q.Output), 10)
		line = append(line, `, "hash_ids": [`...)
		for i := range blocks(q.Prompt, w.BlockTokens) {
			if i > 0 {
				line = append(line, ", "...)
			}
			line = strconv.AppendInt(line, ids.at(chain, i), 10)
		}
		line = append(line, "]}\n"...)
		_, err = out.Write(line)
		return err
	})
	return errors.Join(err, out.Flush())
}

// lost returns an error if the file would lose something of a request.
func (w MooncakeWriter) lost(q *sim.Request) error {
	if err := lost(q, "a Mooncake trace", true); err != nil || len(q.Prefix) == 0 {
		return err
	}
	known := q.Prompt / q.PrefixBlock
	if w.PartialIDs {
		known = blocks(q.Prompt, q.PrefixBlock)
	}
	if len(q.Prefix) > known {
		return lossyError(fmt.Sprintf("workload: request %d has a prefix that goes on behind its prompt, which a Mooncake trace has no place for (Lossy leaves it out)", q.ID))
	}
	return nil
}

// chain appends the hashes of the prompt's blocks to dst, without the last one
// if that is not full and has none.
func (w MooncakeWriter) chain(dst []kv.Hash, q *sim.Request) ([]kv.Hash, error) {
	if len(q.Prefix) == 0 {
		return dst, nil
	}
	dst, err := kv.Convert(dst, q.Prefix, q.PrefixBlock, w.BlockTokens, q.Prompt)
	if err != nil {
		return dst, err
	}
	full := q.Prompt / w.BlockTokens
	if w.PartialIDs && q.PrefixBlock == w.BlockTokens && len(dst) == full && len(q.Prefix) > full && q.Prompt%w.BlockTokens > 0 {
		dst = append(dst, q.Prefix[full])
	}
	return dst, nil
}

// numbering numbers hashes in order of appearance.
type numbering struct {
	ids  map[kv.Hash]int64
	next int64
}

// at returns the number of block i of a chain, a fresh one behind its end.
func (n *numbering) at(chain []kv.Hash, i int) int64 {
	if i < len(chain) {
		if id, ok := n.ids[chain[i]]; ok {
			return id
		}
		n.ids[chain[i]] = n.next
	}
	n.next++
	return n.next - 1
}
