package terminal_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"servesim/examples/internal/terminal"
)

// A file and a buffer are no terminals.
func TestStatus(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b bytes.Buffer
	for _, w := range []interface {
		Write([]byte) (int, error)
	}{f, &b} {
		show, clear := terminal.Status(w)
		show("half way")
		clear()
	}
	if info, err := f.Stat(); err != nil || info.Size() > 0 || b.Len() > 0 {
		t.Errorf("a file has %d bytes, a buffer %q, %v", info.Size(), &b, err)
	}
}
