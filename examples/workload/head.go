package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
)

// head is the beginning of a file.
type head struct {
	columns []string                   // fields of the first line of a CSV file
	keys    map[string]json.RawMessage // of the first JSON object
	archive bool                       // a folder, or a tar file
}

func (h head) has(names ...string) bool {
	for _, n := range names {
		if !slices.Contains(h.columns, n) && h.keys[n] == nil {
			return false
		}
	}
	return true
}

func (h head) object(key string) bool { return len(h.keys[key]) > 0 && h.keys[key][0] == '{' }

// windows reports a file of rates, whose six columns have no names, or one of
// lengths, whose keys are numbers.
func (h head) windows() bool {
	numbers := 0
	for name := range h.keys {
		if _, err := strconv.ParseFloat(name, 64); err != nil || !h.object(name) {
			return false
		}
		numbers++
	}
	if len(h.columns) == 6 {
		_, err := strconv.ParseFloat(h.columns[0], 64)
		return err == nil
	}
	return numbers > 0
}

func readHead(file string) (head, error) {
	if info, err := os.Stat(file); err == nil && info.IsDir() {
		return head{archive: true}, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return head{}, err
	}
	defer f.Close()
	in, err := unzip(f)
	if err != nil {
		return head{}, fmt.Errorf("%s: %w", file, err)
	}
	const longest = 1 << 20 // bytes of the first row
	start, err := io.ReadAll(io.LimitReader(in, longest))
	if err != nil && len(start) == 0 { // else the reader says where a damaged file ends
		return head{}, fmt.Errorf("%s: %w", file, err)
	}
	if _, err := tar.NewReader(bytes.NewReader(start)).Next(); err == nil {
		return head{archive: true}, nil
	}
	start = bytes.TrimSpace(bytes.TrimPrefix(start, []byte("\xef\xbb\xbf")))
	if len(start) > 0 && start[0] == '{' {
		return head{keys: firstKeys(start)}, nil
	}
	line, _, _ := bytes.Cut(start, []byte("\n"))
	var h head
	for _, name := range bytes.Split(line, []byte(",")) {
		h.columns = append(h.columns, string(bytes.Trim(name, "\" \t\r")))
	}
	return h, nil
}

// firstKeys reads the members of the object at the start of a file, up to
// where the start ends.
func firstKeys(start []byte) map[string]json.RawMessage {
	keys := map[string]json.RawMessage{}
	d := json.NewDecoder(bytes.NewReader(start))
	if _, err := d.Token(); err != nil {
		return keys
	}
	for d.More() {
		key, err := d.Token()
		name, ok := key.(string)
		var value json.RawMessage
		if err != nil || !ok || d.Decode(&value) != nil {
			break
		}
		keys[name] = value
	}
	return keys
}

// unzip reads a file that is plain or gzip.
func unzip(r io.Reader) (io.Reader, error) {
	in := bufio.NewReader(r)
	if magic, _ := in.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return gzip.NewReader(in)
	}
	return in, nil
}
