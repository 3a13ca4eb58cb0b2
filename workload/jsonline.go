package workload

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// maxJSONLine is the longest line of JSON that a reader accepts, in bytes:
// rows may hold the text of a long prompt.
const maxJSONLine = 16 << 20

var errNoObject = errors.New("the line is not a JSON object")

// members calls visit for every member of the JSON object that a line holds,
// in its order: with the key, unquoted, and the value as written, which is
// valid JSON without blanks around it. encoding/json alone lets duplicate keys
// and keys in other letters pass.
func members(line []byte, visit func(key, value []byte) error) error {
	if !json.Valid(line) {
		return fmt.Errorf("not JSON: %w", json.Unmarshal(line, new(any)))
	}
	rest := trimJSON(line)
	if rest[0] != '{' {
		return errNoObject
	}
	rest = trimJSON(rest[1:])
	for rest[0] != '}' {
		var key, value []byte
		key, rest = cutJSON(rest)
		value, rest = cutJSON(trimJSON(rest[len(":"):]))
		if rest[0] == ',' {
			rest = trimJSON(rest[len(","):])
		}
		if err := visit(unquote(key), value); err != nil {
			return err
		}
	}
	return nil
}

// trimJSON drops leading blanks.
func trimJSON(b []byte) []byte {
	i := 0
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return b[i:]
}

// cutJSON splits b, the middle of valid JSON, behind the value at its start.
// Blanks behind the value are dropped.
func cutJSON(b []byte) (value, rest []byte) {
	depth, i := 0, 0
	for ; i < len(b); i++ {
		switch b[i] {
		case '"':
			for i++; b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		case ',', ':', ' ', '\t', '\n', '\r':
			if depth == 0 {
				return b[:i], trimJSON(b[i:])
			}
		}
		if depth < 0 { // the end of what the value stands in
			break
		}
	}
	return b[:i], b[i:]
}

// unquote returns the content of a JSON string.
func unquote(s []byte) []byte {
	if bytes.IndexByte(s, '\\') < 0 {
		return s[1 : len(s)-1]
	}
	var text string
	if err := json.Unmarshal(s, &text); err != nil {
		panic("workload: valid JSON is not: " + err.Error())
	}
	return []byte(text)
}

// shorten returns a value for an error.
func shorten(value []byte) string {
	const most = 60
	if len(value) <= most {
		return strings.ToValidUTF8(string(value), "?")
	}
	return strings.ToValidUTF8(string(value[:most]), "?") + "…"
}
