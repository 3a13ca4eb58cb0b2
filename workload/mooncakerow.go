package workload

import (
	"errors"
	"fmt"

	"servesim/sim/kv"
)

// mooncakeRow reads the rows of one iteration.
type mooncakeRow struct {
	Mooncake // without zero fields that mean something else

	ids  []uint64
	kind []byte // the value of type, valid during the call
}

// mooncakeKeys are the keys that a row may have.
var mooncakeKeys = [...]string{"timestamp", "input_length", "output_length", "hash_ids", "type"}

// parse reads a row.
func (m *mooncakeRow) parse(line []byte, r *row) error {
	var seen [len(mooncakeKeys)]bool
	m.ids, m.kind = m.ids[:0], nil
	err := members(line, func(key, value []byte) error {
		for i, name := range mooncakeKeys {
			if string(key) != name {
				continue
			}
			if seen[i] {
				return fmt.Errorf("the row has %s twice", name)
			}
			seen[i] = true
			return m.set(name, value, r)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, name := range mooncakeKeys {
		if !seen[i] && m.must(name) {
			return fmt.Errorf("the row has no %s", name)
		}
	}
	if m.Type != "" && string(m.kind) != m.Type {
		r.drop = filteredOut
	}
	r.prefix, err = m.prefix(r.prompt)
	return err
}

// must reports whether a row must have a key.
func (m *mooncakeRow) must(name string) bool {
	switch name {
	case "hash_ids":
		return !m.NoPrefix && !m.LooseIDs
	case "type":
		return m.Type != ""
	}
	return true
}

// set reads the value of a key.
func (m *mooncakeRow) set(name string, value []byte, r *row) (err error) {
	switch name {
	case "timestamp":
		r.stamp = value
		r.at, err = parseInstant(value, m.Unit)
	case "input_length":
		r.prompt, err = parseCount(value)
	case "output_length":
		r.output, err = parseCount(value)
	case "hash_ids":
		if !m.NoPrefix && !(m.LooseIDs && string(value) == "null") {
			m.ids, err = parseIDs(m.ids, value)
		}
	case "type":
		if value[0] == '"' {
			m.kind = unquote(value)
		}
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", name, shorten(value), err)
	}
	return nil
}

// prefix is the hash chain of a prompt.
func (m *mooncakeRow) prefix(prompt int) ([]kv.Hash, error) {
	full, all := prompt/m.BlockTokens, blocks(prompt, m.BlockTokens)
	if n := len(m.ids); n != full && n != all && !m.LooseIDs && !m.NoPrefix {
		return nil, fmt.Errorf("hash_ids has %d ids, input_length %d makes %d blocks of %d tokens", n, prompt, all, m.BlockTokens)
	}
	if m.PartialIDs {
		full = all
	}
	ids := m.ids[:min(len(m.ids), full)]
	if len(ids) == 0 {
		return nil, nil
	}
	return kv.HashIDs(make([]kv.Hash, 0, len(ids)), ids, m.Path), nil
}

// blocks returns how many blocks hold that many tokens.
func blocks(tokens, block int) int {
	n := tokens / block
	if tokens%block > 0 {
		n++
	}
	return n
}

var errIDs = errors.New("not a list of whole numbers from 0 to 18446744073709551615")

// parseIDs appends the elements of a JSON array to dst.
func parseIDs(dst []uint64, list []byte) ([]uint64, error) {
	if list[0] != '[' {
		return dst, errIDs
	}
	rest := trimJSON(list[1:])
	for rest[0] != ']' {
		var element []byte
		element, rest = cutJSON(rest)
		id, ok := parseWhole(unquoted(element))
		if !ok {
			return dst, fmt.Errorf("element %d is %s: %w", len(dst), shorten(element), errIDs)
		}
		dst = append(dst, id)
		if rest[0] == ',' {
			rest = trimJSON(rest[1:])
		}
	}
	return dst, nil
}
