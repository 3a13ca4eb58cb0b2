package workload

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// node is a value of a JSON document and where it stands.
type node struct {
	line   int
	token  json.Token // '{', '[', a string, a json.Number, a bool, or nil
	names  []string   // of the members of an object
	values []*node    // of an object or a list
	place  *documentPlace
}

// documentPlace is where a document was found.
type documentPlace struct {
	folder  string // of relative paths
	reading bool   // no other file is read yet
}

// documentError is what is wrong with a value, and the way to it from the top.
type documentError struct {
	line int
	path string
	err  error
}

func (e *documentError) Error() string {
	if path := strings.TrimPrefix(e.path, "."); path != "" {
		return fmt.Sprintf("%d: %s: %v", e.line, path, e.err)
	}
	return fmt.Sprintf("%d: %v", e.line, e.err)
}

func (e *documentError) Unwrap() error { return e.err }

func (n *node) errorf(format string, args ...any) error {
	return &documentError{line: n.line, err: fmt.Errorf(format, args...)}
}

// within puts a step in front of the way to what is wrong.
func within(step string, err error) error {
	var e *documentError
	if errors.As(err, &e) {
		e.path = step + e.path
	}
	return err
}

const (
	maxDocument = 64 << 20 // bytes, and so the memory that one takes
	maxNesting  = 100
)

// documentParser reads JSON that spans lines, strictly: names stand once and
// nothing follows the value. encoding/json's Unmarshal takes names in other
// letters and the last of two equal ones, and knows no lines.
type documentParser struct {
	data  []byte
	dec   *json.Decoder
	place *documentPlace

	counted int // bytes whose line ends are counted
	lines   int
}

// parseDocument reads the one value of r.
func parseDocument(r io.Reader, place *documentPlace) (*node, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxDocument+1))
	switch {
	case err != nil:
		return nil, err
	case len(data) > maxDocument:
		return nil, fmt.Errorf("longer than %d bytes", maxDocument)
	}
	p := &documentParser{data: data, dec: json.NewDecoder(bytes.NewReader(data)), place: place}
	p.dec.UseNumber()
	for at := 0; at < len(data); {
		c, size := utf8.DecodeRune(data[at:])
		if c == utf8.RuneError && size == 1 {
			return nil, &documentError{line: 1 + bytes.Count(data[:at], []byte("\n")), err: errors.New("not UTF-8")}
		}
		at += size
	}
	n, err := p.value(0)
	if err != nil {
		return nil, err
	}
	if rest := data[p.dec.InputOffset():]; len(bytes.TrimSpace(rest)) > 0 {
		start := len(data) - len(bytes.TrimLeft(rest, " \t\r\n"))
		return nil, &documentError{line: 1 + bytes.Count(data[:start], []byte("\n")), err: errors.New("something follows the document")}
	}
	return n, nil
}

// next returns the next token and its place.
func (p *documentParser) next() (*node, error) {
	t, err := p.dec.Token()
	at := int(p.dec.InputOffset())
	p.lines += bytes.Count(p.data[p.counted:at], []byte("\n"))
	p.counted = at
	n := &node{line: p.lines + 1, token: t, place: p.place}
	var syntax *json.SyntaxError
	switch {
	case err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF):
		return nil, &documentError{line: 1 + bytes.Count(p.data, []byte("\n")), err: errors.New("the file ends in the middle of a value")}
	case errors.As(err, &syntax):
		return nil, n.errorf("not JSON: %s", syntax)
	case err != nil:
		return nil, n.errorf("%w", err)
	}
	return n, nil
}

func (p *documentParser) value(depth int) (*node, error) {
	n, err := p.next()
	if err != nil {
		return nil, err
	}
	if _, ok := n.token.(json.Delim); !ok {
		return n, nil
	}
	if depth == maxNesting {
		return nil, n.errorf("nested deeper than %d values", maxNesting)
	}
	seen := map[string]bool{}
	for p.dec.More() {
		if n.token == json.Delim('{') {
			key, err := p.next()
			if err != nil {
				return nil, err
			}
			name := key.token.(string)
			if seen[name] {
				return nil, key.errorf("the field %q stands twice", brief(name))
			}
			seen[name] = true
			n.names = append(n.names, name)
		}
		v, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		n.values = append(n.values, v)
	}
	_, err = p.next()
	return n, err
}

// member returns the value of a name, nil if there is none.
func (n *node) member(name string) *node {
	for i, s := range n.names {
		if s == name {
			return n.values[i]
		}
	}
	return nil
}

// add appends a member to an object.
func (n *node) add(name string, v *node) {
	n.names, n.values = append(n.names, name), append(n.values, v)
}

// what shows a value in an error message.
func (n *node) what() string {
	switch t := n.token.(type) {
	case json.Delim:
		if t == '{' {
			return "an object"
		}
		return "a list"
	case string:
		return fmt.Sprintf("%q", brief(t))
	case nil:
		return "null"
	}
	return brief(fmt.Sprint(n.token))
}

// brief keeps an error message short.
func brief(s string) string {
	const most = 40
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}

// documentColumns is the width that documents are laid out for.
const documentColumns = 100

// print appends the value as JSON that begins in a column of a line with an
// indentation: in this line if it fits, else with a line for each member.
func (n *node) print(dst []byte, indent, column int) []byte {
	line := n.printLine(nil)
	if column+len(line) <= documentColumns || len(n.values) == 0 {
		return append(dst, line...)
	}
	open := n.token.(json.Delim)
	dst = append(dst, byte(open))
	for i, v := range n.values {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = newLine(dst, indent+2)
		name := n.name(i)
		dst = v.print(append(dst, name...), indent+2, indent+2+len(name))
	}
	return append(newLine(dst, indent), closing(open))
}

// printLine appends the value on one line.
func (n *node) printLine(dst []byte) []byte {
	open, ok := n.token.(json.Delim)
	if !ok {
		return append(dst, scalar(n.token)...)
	}
	dst = append(dst, byte(open))
	for i, v := range n.values {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = v.printLine(append(dst, n.name(i)...))
	}
	return append(dst, closing(open))
}

func newLine(dst []byte, indent int) []byte {
	return append(append(dst, '\n'), bytes.Repeat([]byte(" "), indent)...)
}

func closing(open json.Delim) byte { return byte(open) + 2 } // of [ and {

// name is what stands before a value of an object.
func (n *node) name(i int) []byte {
	if n.names == nil {
		return nil
	}
	return append(scalar(n.names[i]), ": "...)
}

// scalar is a string, a number or a truth value as JSON.
func scalar(t any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(t); err != nil {
		panic("workload: " + err.Error())
	}
	return bytes.TrimSpace(b.Bytes())
}
