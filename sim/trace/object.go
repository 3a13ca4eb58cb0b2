package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// walk calls visit for every member of the JSON object that data holds, with
// its key and its value as it stands, which is valid JSON. encoding/json alone
// lets duplicate keys and halves of surrogate pairs pass and cannot name the
// field that holds a NaN. data is UTF-8.
func walk(data []byte, visit func(key, value []byte) error) error {
	o := object{data: data}
	if err := o.expect('{'); err != nil {
		return err
	}
	if o.peek() == '}' {
		return o.end()
	}
	for {
		key, err := o.key()
		if err != nil {
			return err
		}
		value, err := o.value(key)
		if err != nil {
			return err
		}
		if err := visit(key, value); err != nil {
			return err
		}
		if o.peek() == '}' {
			return o.end()
		}
		if err := o.expect(','); err != nil {
			return err
		}
	}
}

// object is a position in the text of an object.
type object struct {
	data []byte
	at   int
}

// peek skips white space and returns the byte behind it, 0 at the end.
func (o *object) peek() byte {
	for o.at < len(o.data) {
		switch c := o.data[o.at]; c {
		case ' ', '\t', '\r', '\n':
			o.at++
		default:
			return c
		}
	}
	return 0
}

func (o *object) expect(c byte) error {
	if o.peek() != c {
		return fmt.Errorf("want %q, have %s", c, shorten(o.data[o.at:]))
	}
	o.at++
	return nil
}

// end takes the closing brace, behind which nothing may follow.
func (o *object) end() error {
	o.at++
	if o.peek(); o.at < len(o.data) {
		return fmt.Errorf("%s behind the object", shorten(o.data[o.at:]))
	}
	return nil
}

func (o *object) key() ([]byte, error) {
	if o.peek() != '"' {
		return nil, fmt.Errorf("want a field name, have %s", shorten(o.data[o.at:]))
	}
	raw := o.extent()
	if !json.Valid(raw) {
		return nil, fmt.Errorf("want a field name, have %s", shorten(raw))
	}
	key, err := unquote(raw)
	if err != nil {
		return nil, fmt.Errorf("field name %s %w", shorten(raw), err)
	}
	return key, o.expect(':')
}

func (o *object) value(key []byte) ([]byte, error) {
	o.peek()
	raw := o.extent()
	if len(raw) == 0 {
		return nil, fmt.Errorf("%s has no value", key)
	}
	if !json.Valid(raw) {
		return nil, fmt.Errorf("%s is %s, which is not JSON", key, shorten(raw))
	}
	return raw, nil
}

// extent takes a value without looking at what it is: up to the first comma or
// closing bracket outside strings and brackets of its own, or white space
// outside them.
func (o *object) extent() []byte {
	start, depth, quoted := o.at, 0, false
	for ; o.at < len(o.data); o.at++ {
		c := o.data[o.at]
		switch {
		case quoted && c == '\\':
			o.at++
		case c == '"':
			quoted = !quoted
			if !quoted && depth == 0 {
				o.at++
				return o.data[start:o.at]
			}
		case quoted:
		case c == '{' || c == '[':
			depth++
		case depth > 0 && (c == '}' || c == ']'):
			depth--
			if depth == 0 {
				o.at++
				return o.data[start:o.at]
			}
		case depth == 0 && (c == ',' || c == '}' || c == ']' || c == ' ' || c == '\t' || c == '\r' || c == '\n'):
			return o.data[start:o.at]
		}
	}
	o.at = len(o.data) // a backslash may have led past the end
	return o.data[start:]
}

// unquote decodes a valid JSON string. Half of a surrogate pair stands for no
// character and is refused: decoded as usual, different halves are equal.
func unquote(raw []byte) ([]byte, error) {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1], nil
	}
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		i++ // the escaped character
		if raw[i] != 'u' {
			continue
		}
		r := hexRune(raw[i+1:])
		i += 4
		if !utf16.IsSurrogate(r) {
			continue
		}
		if i+6 < len(raw) && raw[i+1] == '\\' && raw[i+2] == 'u' && utf16.DecodeRune(r, hexRune(raw[i+3:])) != '\uFFFD' {
			i += 6
			continue
		}
		return nil, errors.New("holds half of a surrogate pair")
	}
	var s string
	err := json.Unmarshal(raw, &s)
	return []byte(s), err
}

// hexRune reads four hexadecimal digits.
func hexRune(raw []byte) rune {
	n, err := strconv.ParseUint(string(raw[:4]), 16, 32)
	if err != nil {
		panic("trace: " + err.Error()) // the string is valid JSON
	}
	return rune(n)
}

// shorten returns text for an error message: its beginning if it is long,
// quoted if it could not be read otherwise.
func shorten(text []byte) string {
	const most = 40
	text = bytes.TrimRight(text, "\r\n")
	if len(text) == 0 {
		return "the end of the line"
	}
	more := ""
	if len(text) > most {
		text, more = text[:most], "…"
	}
	s := string(text)
	if strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) || r == utf8.RuneError }) {
		s = strconv.Quote(s)
	}
	return s + more
}
