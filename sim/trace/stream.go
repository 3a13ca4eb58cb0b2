package trace

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// stream reads strict JSON of any size value by value, where object needs a line
// in memory.
type stream struct {
	in   *bufio.Reader
	at   int64 // bytes taken
	text []byte
}

func newStream(r io.Reader) *stream { return &stream{in: bufio.NewReaderSize(r, 1<<16)} }

// maxText bounds a string or a number, and maxDepth lists in lists, of a value
// that is skipped.
const (
	maxText  = 1 << 20
	maxDepth = 100
)

// errCut is the error of a file that ends within a value.
var errCut = errors.New("the file ends")

func (s *stream) next() (byte, error) {
	c, err := s.in.ReadByte()
	if err == io.EOF {
		return 0, errCut
	}
	if err == nil {
		s.at++
	}
	return c, err
}

// peek returns the first byte behind white space and leaves it there.
func (s *stream) peek() (byte, error) {
	for {
		c, err := s.next()
		if err != nil {
			return 0, err
		}
		if c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			s.back()
			return c, nil
		}
	}
}

func (s *stream) back() {
	if err := s.in.UnreadByte(); err != nil {
		panic("trace: " + err.Error()) // a byte was read before
	}
	s.at--
}

// ended reports whether there is nothing but white space.
func (s *stream) ended() (bool, error) {
	_, err := s.peek()
	if err == errCut {
		return true, nil
	}
	return false, err
}

// expect takes the byte, or one of the two, and returns it.
func (s *stream) expect(bytes string) (byte, error) {
	c, err := s.peek()
	if err != nil {
		return 0, err
	}
	for i := range len(bytes) {
		if bytes[i] == c {
			_, err := s.next()
			return c, err
		}
	}
	return 0, fmt.Errorf("want %s, have %s", wanted(bytes), shorten([]byte{c}))
}

func wanted(bytes string) string {
	if len(bytes) == 1 {
		return fmt.Sprintf("%q", bytes[0])
	}
	return fmt.Sprintf("%q or %q", bytes[0], bytes[1])
}

// string takes a string.
func (s *stream) string() (string, error) {
	raw, err := s.quoted(true)
	if err != nil {
		return "", err
	}
	if !utf8.Valid(raw) {
		return "", fmt.Errorf("%s is not UTF-8", shorten(raw))
	}
	text, err := unquote(raw)
	return string(text), err
}

// quoted takes a string as it stands, valid until the next call, or skips it.
func (s *stream) quoted(keep bool) ([]byte, error) {
	if c, err := s.peek(); err != nil {
		return nil, err
	} else if c != '"' {
		return nil, fmt.Errorf("want a string, have %s", shorten([]byte{c}))
	}
	s.text = s.text[:0]
	escaped, digits := false, 0 // hexadecimal digits that must follow
	for n := 0; ; n++ {
		c, err := s.next()
		switch {
		case err != nil:
			return nil, err
		case c < ' ':
			return nil, fmt.Errorf("a string with the byte %#x", c)
		case escaped && !strings.ContainsRune(`"\/bfnrtu`, rune(c)) || digits > 0 && !strings.ContainsRune("0123456789abcdefABCDEF", rune(c)):
			return nil, fmt.Errorf("a string with an escape that ends in %q", c)
		case keep && n == maxText:
			return nil, fmt.Errorf("a string of more than %d bytes", maxText)
		}
		if keep {
			s.text = append(s.text, c)
		}
		switch {
		case c == '"' && !escaped && n > 0:
			return s.text, nil
		case digits > 0:
			digits--
		case escaped && c == 'u':
			digits = 4
		}
		escaped = c == '\\' && !escaped
	}
}

// scalar takes a number or a word, valid until the next call.
func (s *stream) scalar() ([]byte, error) {
	if _, err := s.peek(); err != nil {
		return nil, err
	}
	s.text = s.text[:0]
	for {
		c, err := s.next()
		if err == errCut && len(s.text) > 0 {
			break
		}
		if err != nil {
			return nil, err
		}
		word := c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '-' || c == '+' || c == '.'
		if !word {
			s.back()
			break
		}
		if s.text = append(s.text, c); len(s.text) > maxText {
			return nil, fmt.Errorf("a number of more than %d bytes", maxText)
		}
	}
	if !json.Valid(s.text) {
		if len(s.text) == 0 {
			c, _ := s.peek()
			return nil, fmt.Errorf("have %s, which is no value", shorten([]byte{c}))
		}
		return nil, fmt.Errorf("is %s, which is not JSON", shorten(s.text))
	}
	return s.text, nil
}

// locate says where in a value a fault is.
func locate(where string, err error) error {
	switch {
	case err == nil:
		return nil
	case strings.HasPrefix(err.Error(), "["):
		return fmt.Errorf("%s%w", where, err)
	case strings.HasPrefix(err.Error(), "is "):
		return fmt.Errorf("%s %w", where, err)
	}
	return fmt.Errorf("%s: %w", where, err)
}

// list takes a list: item takes each value.
func (s *stream) list(item func(i int) error) error {
	if _, err := s.expect("["); err != nil {
		return err
	}
	if c, err := s.peek(); err == nil && c == ']' {
		_, err = s.next()
		return err
	}
	for i := 0; ; i++ {
		if err := item(i); err != nil {
			return locate(fmt.Sprintf("[%d]", i), err)
		}
		if c, err := s.expect(",]"); err != nil || c == ']' {
			return err
		}
	}
}

// object takes an object: member takes the value of each key.
func (s *stream) object(member func(key string) error) error {
	if _, err := s.expect("{"); err != nil {
		return err
	}
	if c, err := s.peek(); err == nil && c == '}' {
		_, err = s.next()
		return err
	}
	for {
		key, err := s.string()
		if err == nil {
			_, err = s.expect(":")
		}
		if err != nil {
			return err
		}
		if err := member(key); err != nil {
			return err
		}
		if c, err := s.expect(",}"); err != nil || c == '}' {
			return err
		}
	}
}

// skip takes a value of any kind.
func (s *stream) skip(depth int) error {
	c, err := s.peek()
	switch {
	case err != nil:
		return err
	case depth > maxDepth:
		return fmt.Errorf("lists in lists, more than %d deep", maxDepth)
	case c == '"':
		_, err = s.quoted(false)
	case c == '[':
		err = s.list(func(int) error { return s.skip(depth + 1) })
	case c == '{':
		err = s.object(func(string) error { return s.skip(depth + 1) })
	default:
		_, err = s.scalar()
	}
	return err
}
