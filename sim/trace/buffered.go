package trace

import (
	"fmt"
	"io"
)

// buffered collects what an exporter writes, and keeps its first fault.
type buffered struct {
	buf []byte
	err error
}

// bufferBytes is how much is collected before it is written.
const bufferBytes = 1 << 16

// drain writes to w once enough is collected.
func (b *buffered) drain(w io.Writer) {
	if len(b.buf) >= bufferBytes {
		b.flush(w)
	}
}

// endLine ends a line of a file of lines.
func (b *buffered) endLine(w io.Writer) {
	b.buf = append(b.buf, '\n')
	b.drain(w)
}

// flush writes all that is collected, unless there was a fault before.
func (b *buffered) flush(w io.Writer) {
	if b.err != nil {
		return
	}
	n, err := w.Write(b.buf)
	if err == nil && n < len(b.buf) {
		err = io.ErrShortWrite
	}
	if err != nil {
		b.err = fmt.Errorf("trace: %w", err)
	}
	b.buf = b.buf[:0]
}
