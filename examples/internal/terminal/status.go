package terminal

import (
	"fmt"
	"io"
	"os"
)

// Status returns what shows one line on w, over the last one, and what clears
// it. Both do nothing unless w is a terminal.
func Status(w io.Writer) (show func(text string), clear func()) {
	f, ok := w.(*os.File)
	if ok {
		info, err := f.Stat()
		ok = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	if !ok {
		return func(string) {}, func() {}
	}
	const erase = "\r\x1b[K"
	return func(text string) { fmt.Fprint(f, erase+text) }, func() { fmt.Fprint(f, erase) }
}
