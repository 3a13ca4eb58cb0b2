package workload

import (
	"errors"
	"fmt"
	"time"

	"servesim/sim/kv"
)

// ragRow reads the rows of one iteration.
type ragRow struct {
	RAGPulse // BlockTokens is at least 1

	lengths [RAGKinds]map[uint64]int // tokens of ids
	seen    *RAGRow                  // where else the row goes; may be nil

	ids   []uint64 // of one list
	parts []RAGPart
	texts []Text // of the prompt
}

// ragKeys are the keys that a row must have.
var ragKeys = [...]string{"timestamp", "input_length", "output_length", "hash_ids", "session_id"}

// parse reads a row.
func (g *ragRow) parse(line []byte, r *row) error {
	var seen [len(ragKeys)]bool
	g.parts = g.parts[:0]
	err := members(line, func(key, value []byte) error {
		for i, name := range ragKeys {
			if string(key) != name {
				continue
			}
			if seen[i] {
				return fmt.Errorf("the row has %s twice", name)
			}
			seen[i] = true
			return g.set(name, value, r)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, name := range ragKeys {
		if !seen[i] && !(name == "hash_ids" && g.NoPrefix) {
			return fmt.Errorf("the row has no %s", name)
		}
	}
	if g.NoPrefix {
		return nil
	}
	if g.seen != nil {
		g.seen.Parts = g.parts
		return g.check(r.prompt)
	}
	if err := g.check(r.prompt); err != nil {
		return err
	}
	r.prefix = g.prefix()
	return nil
}

// set reads the value of a key.
func (g *ragRow) set(name string, value []byte, r *row) (err error) {
	switch name {
	case "timestamp":
		r.stamp = value
		r.at, err = parseInstant(value, time.Second)
	case "input_length":
		r.prompt, err = parseCount(value)
	case "output_length":
		r.output, err = parseCount(value)
	case "hash_ids":
		if g.NoPrefix {
			return nil
		}
		return g.lists(value)
	case "session_id":
		if g.seen != nil {
			g.seen.Session = string(unquoted(value))
		}
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", name, shorten(value), err)
	}
	return nil
}

// lists reads the parts of hash_ids, in the order of RAGKind whatever theirs.
func (g *ragRow) lists(object []byte) error {
	var lists [RAGKinds][]byte
	err := members(object, func(key, value []byte) error {
		for kind := range RAGKinds {
			if string(key) != ragKinds[kind].list {
				continue
			}
			if lists[kind] != nil {
				return fmt.Errorf("hash_ids has %s twice", kind)
			}
			lists[kind] = value
			return nil
		}
		return fmt.Errorf("hash_ids has a list %q, which is none of a prompt", shorten(key))
	})
	if errors.Is(err, errNoObject) {
		return fmt.Errorf("hash_ids %s: not an object of lists", shorten(object))
	}
	if err != nil {
		return err
	}
	for kind, list := range lists {
		if list == nil {
			continue
		}
		kind := RAGKind(kind)
		if g.ids, err = parseIDs(g.ids[:0], list); err != nil {
			return fmt.Errorf("hash_ids.%s %s: %w", kind, shorten(list), err)
		}
		for _, id := range g.ids {
			tokens, ok := g.lengths[kind][id]
			if !ok {
				return fmt.Errorf("hash_ids.%s has id %d, whose tokens file %s does not tell", kind, id, ragKinds[kind].file)
			}
			g.parts = append(g.parts, RAGPart{kind, id, tokens})
		}
	}
	return nil
}

// check compares the parts with the prompt that they make.
func (g *ragRow) check(prompt int) error {
	sum := 0
	for _, p := range g.parts {
		sum += p.Tokens
	}
	switch {
	case sum > prompt:
		return fmt.Errorf("the parts of hash_ids have %d tokens, input_length is %d", sum, prompt)
	case sum > maxContent:
		return fmt.Errorf("the parts of hash_ids have %d tokens, more than %d", sum, maxContent)
	}
	return nil
}

// maxContent is the longest prompt that a recording may name the parts of.
const maxContent = 1 << 24

// Bounds of the tokens of a part, and of ids, so that kind and id make one ID.
const (
	maxPart        = 1 << 24
	maxID   uint64 = 1 << 36
)

// prefix is the hash chain of the parts.
func (g *ragRow) prefix() []kv.Hash {
	g.texts = g.texts[:0]
	tokens := 0
	for _, p := range g.parts {
		g.texts = append(g.texts, Text{ID: uint64(p.Kind)*maxID + p.ID, Tokens: p.Tokens})
		tokens += p.Tokens
	}
	blocks := tokens / g.BlockTokens
	if blocks == 0 {
		return nil
	}
	return HashTexts(make([]kv.Hash, 0, blocks), g.texts, g.BlockTokens, g.Path)
}

// parseSide reads a row of a file of token lengths. The ids are called idName,
// which is set if it is empty.
func parseSide(line []byte, idName *string) (id uint64, tokens int, err error) {
	var seenID, seenTokens bool
	err = members(line, func(key, value []byte) (err error) {
		if len(key) == 0 {
			return nil
		}
		if *idName == "" && isRAGID(key) {
			*idName = string(key)
		}
		switch string(key) {
		case *idName:
			if seenID {
				return fmt.Errorf("the row has %s twice", key)
			}
			seenID = true
			var ok bool
			if id, ok = parseWhole(unquoted(value)); !ok || id >= maxID {
				return fmt.Errorf("%s %s: not a whole number below %d", key, shorten(value), maxID)
			}
		case "token_length":
			if seenTokens {
				return errors.New("the row has token_length twice")
			}
			seenTokens = true
			if tokens, err = parseCount(value); err == nil && tokens >= maxPart {
				err = fmt.Errorf("not below %d", maxPart)
			}
			if err != nil {
				return fmt.Errorf("token_length %s: %w", shorten(value), err)
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return 0, 0, err
	case !seenID && *idName == "":
		return 0, 0, errors.New("the row has no id of a part, such as passage_id")
	case !seenID:
		return 0, 0, fmt.Errorf("the row has no %s", *idName)
	case !seenTokens:
		return 0, 0, errors.New("the row has no token_length")
	}
	return id, tokens, nil
}

func isRAGID(key []byte) bool {
	for _, k := range ragKinds {
		if string(key) == k.id {
			return true
		}
	}
	return false
}
