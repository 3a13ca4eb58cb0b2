package workload

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"slices"
)

// maxLine is the longest line of a CSV file that a reader accepts, in bytes,
// and the size of a buffer.
const maxLine = 64 << 10

// lines reads a text file line by line: plain or gzip, told by its first two
// bytes; LF or CRLF; with or without a byte order mark and a last newline.
type lines struct {
	name    string // in errors
	number  int    // of the line last read, from 1
	longest int    // bytes, at least maxLine
	in      *bufio.Reader
	long    []byte // a line that does not fit into the buffer of in
}

// openInput opens the input of a reader: with open, or else the file at path.
func openInput(path string, open func() (io.ReadCloser, error)) (io.ReadCloser, error) {
	if open != nil {
		return open()
	}
	return os.Open(path)
}

// newLines reads lines of r of up to so many bytes, line end included.
func newLines(name string, r io.Reader, longest int) (*lines, error) {
	in, err := unzip(name, r)
	if err != nil {
		return nil, err
	}
	l := &lines{name: name, longest: longest, in: in}
	start, err := l.in.Peek(3)
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if bytes.Equal(start, []byte("\xef\xbb\xbf")) {
		l.in.Discard(3)
	}
	return l, nil
}

// unzip reads r, which is plain or gzip. An empty file is an error.
func unzip(name string, r io.Reader) (*bufio.Reader, error) {
	in := bufio.NewReaderSize(r, maxLine)
	magic, err := in.Peek(2)
	switch {
	case err == io.EOF && len(magic) == 0:
		return nil, fmt.Errorf("%s: the file is empty", name)
	case err != nil && err != io.EOF:
		return nil, fmt.Errorf("%s: %w", name, err)
	case !bytes.Equal(magic, []byte{0x1f, 0x8b}):
		return in, nil
	}
	unzipped, err := gzip.NewReader(in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return bufio.NewReaderSize(unzipped, maxLine), nil
}

// each calls do for each line that is not blank, until it returns false or an
// error. Errors of reading name file and line.
func (l *lines) each(do func(line []byte) (more bool, err error)) error {
	for {
		line, err := l.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if more, err := do(line); err != nil || !more {
			return err
		}
	}
}

// next returns the next line without its end, valid until the next call. The
// error is io.EOF at the end of the file, and names file and line otherwise.
func (l *lines) next() ([]byte, error) {
	line, err := l.in.ReadSlice('\n')
	if err == io.EOF && len(line) == 0 {
		return nil, io.EOF
	}
	l.number++
	if err == bufio.ErrBufferFull {
		line, err = l.rest(line)
	}
	switch {
	case err == bufio.ErrBufferFull:
		return nil, l.errorf("the line is longer than %d bytes", l.longest)
	case err != nil && err != io.EOF:
		return nil, l.errorf("%w", err)
	}
	line = bytes.TrimSuffix(line, []byte("\n"))
	return bytes.TrimSuffix(line, []byte("\r")), nil
}

// rest returns the line whose beginning filled the buffer. The error is
// bufio.ErrBufferFull if it is longer than allowed.
func (l *lines) rest(start []byte) ([]byte, error) {
	l.long = append(l.long[:0], start...)
	for len(l.long) < l.longest {
		part, err := l.in.ReadSlice('\n')
		if len(part) > cap(l.long)-len(l.long) {
			l.long = slices.Grow(l.long, len(l.long))
		}
		l.long = append(l.long, part...)
		if err != bufio.ErrBufferFull && len(l.long) <= l.longest {
			return l.long, err
		}
	}
	return nil, bufio.ErrBufferFull
}

// errorf returns an error that names the line last read.
func (l *lines) errorf(format string, args ...any) error {
	return fmt.Errorf("%s:%d: "+format, append([]any{l.name, l.number}, args...)...)
}
