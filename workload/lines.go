package workload

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
)

// maxLine is the longest line that a reader accepts, in bytes.
const maxLine = 64 << 10

// lines reads a text file line by line: plain or gzip, told by its first two
// bytes; LF or CRLF; with or without a byte order mark and a last newline.
type lines struct {
	name   string // in errors
	number int    // of the line last read, from 1
	in     *bufio.Reader
}

func newLines(name string, r io.Reader) (*lines, error) {
	l := &lines{name: name, in: bufio.NewReaderSize(r, maxLine)}
	magic, err := l.in.Peek(2)
	switch {
	case err == io.EOF && len(magic) == 0:
		return nil, fmt.Errorf("%s: the file is empty", name)
	case err != nil && err != io.EOF:
		return nil, fmt.Errorf("%s: %w", name, err)
	case !bytes.Equal(magic, []byte{0x1f, 0x8b}):
	default:
		unzipped, err := gzip.NewReader(l.in)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		l.in = bufio.NewReaderSize(unzipped, maxLine)
	}
	start, err := l.in.Peek(3)
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if bytes.Equal(start, []byte("\xef\xbb\xbf")) {
		l.in.Discard(3)
	}
	return l, nil
}

// next returns the next line without its end, valid until the next call. The
// error is io.EOF at the end of the file, and names file and line otherwise.
func (l *lines) next() ([]byte, error) {
	line, err := l.in.ReadSlice('\n')
	if err == io.EOF && len(line) == 0 {
		return nil, io.EOF
	}
	l.number++
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, l.errorf("the line is longer than %d bytes", maxLine)
	case err != nil && err != io.EOF:
		return nil, l.errorf("%w", err)
	}
	line = bytes.TrimSuffix(line, []byte("\n"))
	return bytes.TrimSuffix(line, []byte("\r")), nil
}

// errorf returns an error that names the line last read.
func (l *lines) errorf(format string, args ...any) error {
	return fmt.Errorf("%s:%d: "+format, append([]any{l.name, l.number}, args...)...)
}
