package trace

import (
	"bufio"
	"fmt"
	"io"
)

// maxLine bounds a line, and so the memory that a file without line ends takes.
const maxLine = 16 << 20

// lines reads a file line by line. Unlike bufio.Scanner it drops the part of a
// line that stands before a failed read, so that a cut file is reported as
// such and not as bad JSON.
type lines struct {
	in     *bufio.Reader
	long   []byte // a line that does not fit the reader's buffer
	number int    // of the line that next returned, from 1
}

func newLines(r io.Reader) *lines { return &lines{in: bufio.NewReaderSize(r, 1<<16)} }

// next returns the next line, valid until the next call. The last one needs no
// line end. It returns io.EOF behind it.
func (l *lines) next() ([]byte, error) {
	l.number++
	l.long = l.long[:0]
	for {
		part, err := l.in.ReadSlice('\n')
		switch {
		case err == bufio.ErrBufferFull:
			if l.long = append(l.long, part...); len(l.long) > maxLine {
				return nil, fmt.Errorf("line is longer than %d bytes", maxLine)
			}
			continue
		case err == io.EOF && len(l.long)+len(part) == 0:
			return nil, io.EOF
		case err != nil && err != io.EOF:
			return nil, err
		case len(l.long) > 0:
			l.long = append(l.long, part...)
			return l.long, nil
		}
		return part, nil
	}
}
