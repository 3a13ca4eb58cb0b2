package profile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// maxDocument bounds the size of a document, and so the memory that one takes.
const maxDocument = 16 << 20

// document reads JSON that spans lines, strictly: names are exact and stand
// once, values have the kind that is asked for, and every error names file and
// line. encoding/json's Unmarshal takes names in other letters and the last of
// two equal ones, and knows no lines.
type document struct {
	name string
	data []byte
	dec  *json.Decoder

	counted int // bytes whose line ends are counted
	lines   int
}

func newDocument(r io.Reader, name string) (*document, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxDocument+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	case len(data) > maxDocument:
		return nil, fmt.Errorf("%s: longer than %d bytes", name, maxDocument)
	}
	d := &document{name: name, data: data, dec: json.NewDecoder(bytes.NewReader(data))}
	d.dec.UseNumber()
	for at := 0; at < len(data); {
		r, size := utf8.DecodeRune(data[at:])
		if r == utf8.RuneError && size == 1 {
			return nil, fmt.Errorf("%s:%d: not UTF-8", name, 1+bytes.Count(data[:at], []byte("\n")))
		}
		at += size
	}
	return d, nil
}

// line is that of the last token.
func (d *document) line() int {
	at := int(d.dec.InputOffset())
	d.lines += bytes.Count(d.data[d.counted:at], []byte("\n"))
	d.counted = at
	return d.lines + 1
}

func (d *document) errorf(format string, args ...any) error {
	return fmt.Errorf("%s:%d: %w", d.name, d.line(), fmt.Errorf(format, args...))
}

// more reports whether another value follows, at the top level too.
func (d *document) more() bool {
	return len(bytes.TrimSpace(d.data[d.dec.InputOffset():])) > 0
}

func (d *document) token() (json.Token, error) {
	t, err := d.dec.Token()
	var syntax *json.SyntaxError
	switch {
	case err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF):
		return nil, fmt.Errorf("%s:%d: the file ends in the middle of a value", d.name, 1+bytes.Count(d.data, []byte("\n")))
	case errors.As(err, &syntax):
		return nil, d.errorf("not JSON: %s", syntax)
	case err != nil:
		return nil, d.errorf("%w", err)
	}
	return t, nil
}

// object reads an object: visit is called at each value.
func (d *document) object(what string, visit func(field string) error) error {
	t, err := d.token()
	if err != nil {
		return err
	}
	if t != json.Delim('{') {
		return d.errorf("%s is %s, want an object", what, describe(t))
	}
	seen := map[string]bool{}
	for d.dec.More() {
		key, err := d.token()
		if err != nil {
			return err
		}
		field := key.(string)
		if seen[field] {
			return d.errorf("field %q stands twice", clip(field))
		}
		seen[field] = true
		if err := visit(field); err != nil {
			return err
		}
	}
	_, err = d.token()
	return err
}

// unknown is the error of a field that the schema lacks.
func (d *document) unknown(field string, known ...string) error {
	return d.errorf("unknown field %q, known are %s", clip(field), strings.Join(known, ", "))
}

// list reads an array: visit is called at each value, with its number from 1.
func (d *document) list(what string, visit func(number int) error) error {
	t, err := d.token()
	if err != nil {
		return err
	}
	if t != json.Delim('[') {
		return d.errorf("%s is %s, want a list", what, describe(t))
	}
	for n := 1; d.dec.More(); n++ {
		if err := visit(n); err != nil {
			return err
		}
	}
	_, err = d.token()
	return err
}

func (d *document) text(what string, to *string) error {
	t, err := d.token()
	if err != nil {
		return err
	}
	s, ok := t.(string)
	if !ok {
		return d.errorf("%s is %s, want a string", what, describe(t))
	}
	*to = s
	return nil
}

func (d *document) texts(what string, to *[]string) error {
	*to = []string{}
	return d.list(what, func(number int) error {
		var s string
		err := d.text(fmt.Sprintf("%s, item %d,", what, number), &s)
		*to = append(*to, s)
		return err
	})
}

func (d *document) boolean(what string, to *bool) error {
	t, err := d.token()
	if err != nil {
		return err
	}
	b, ok := t.(bool)
	if !ok {
		return d.errorf("%s is %s, want true or false", what, describe(t))
	}
	*to = b
	return nil
}

func (d *document) number(what string) (json.Number, error) {
	t, err := d.token()
	if err != nil {
		return "", err
	}
	n, ok := t.(json.Number)
	if !ok {
		return "", d.errorf("%s is %s, want a number", what, describe(t))
	}
	return n, nil
}

// describe shows a token in an error message.
func describe(t json.Token) string {
	switch t := t.(type) {
	case json.Delim:
		if t == '{' {
			return "an object"
		}
		return "a list"
	case string:
		return fmt.Sprintf("%q", clip(t))
	case nil:
		return "null"
	}
	return clip(fmt.Sprint(t))
}

// clip keeps an error message short.
func clip(s string) string { return shorten(s, 40) }
