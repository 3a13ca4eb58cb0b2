package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"servesim/costmodel"
)

// plain returns a name in lower case without what is neither letter nor digit,
// so that "Llama-3.1-8B" and "llama-31-8b" are one.
func plain(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			return r
		}
		return -1
	}, name)
}

// mentions reports whether a name has another one in it, whatever stands between
// letters and digits: "rtxpro6000_llama" names RTX-PRO-6000. What goes on with
// letters or digits is another name: L40 is no L4, and V3.2 no V3.
func mentions(name, part string) bool {
	text, edge := plain(name), edges(name)
	part = plain(part)
	for i := 0; i+len(part) <= len(text); i++ {
		if part != "" && strings.HasPrefix(text[i:], part) && edge[i] && edge[i+len(part)] {
			return true
		}
	}
	return false
}

// edges tells of each byte of plain(name), and of the end, whether a name may
// begin or end before it: between letters and digits, and at a separator. A
// point between digits is none.
func edges(name string) []bool {
	const point = '.'
	kind := func(c byte) byte {
		switch {
		case c >= '0' && c <= '9':
			return '0'
		case plain(string(rune(c))) != "":
			return 'a'
		}
		return c
	}
	var list []bool
	before := byte(0)
	for i := range len(name) {
		k := kind(name[i])
		switch {
		case k == '0' || k == 'a':
			list = append(list, before != k)
			before = k
		case k != point || before != '0':
			before = 0
		}
	}
	return append(list, true)
}

// absentGPUs are named like a GPU of the catalogue and differ from it.
var absentGPUs = []string{"A100-PCIe-40", "A100-40-PCIe", "H100-NVL", "RTX-4090-D", "Max-Q", "Laptop"}

// gpuOf returns the GPU of the catalogue that a file, a folder or an engine
// names: the longest name that is part of it. An A100 has 80 GB and is an SXM
// module if nothing else is said.
func gpuOf(name string) (costmodel.GPU, error) {
	for _, other := range absentGPUs {
		if mentions(name, other) {
			return costmodel.GPU{}, fmt.Errorf("%q is a %s, which the catalogue does not have", name, other)
		}
	}
	if mentions(name, "A100") {
		switch {
		case mentions(name, "PCIe"):
			return costmodel.LookupGPU("A100-80-PCIe")
		case mentions(name, "40GB") || mentions(name, "A100-40"):
			return costmodel.LookupGPU("A100-40")
		}
		return costmodel.LookupGPU("A100-80")
	}
	var best costmodel.GPU
	for _, g := range costmodel.GPUs() {
		if mentions(name, g.Name) && len(plain(g.Name)) > len(plain(best.Name)) {
			best = g
		}
	}
	if best.Name == "" {
		return best, fmt.Errorf("no GPU of the catalogue is named in %q", name)
	}
	return best, nil
}

// strangers says what a folder has of GPUs that the catalogue does not know: a
// line for each name in kernels/, and in a table of several GPUs.
func strangers(data string) ([]string, error) {
	paths, err := filepath.Glob(filepath.Join(data, "kernels", "*.csv.gz"))
	if err != nil {
		return nil, err
	}
	var list []string
	note := func(unknown map[string]int, what string) {
		for _, name := range slices.Sorted(maps.Keys(unknown)) {
			_, err := gpuOf(name)
			list = append(list, fmt.Sprintf("%d %s: %v", unknown[name], what, err))
		}
	}
	unknown := map[string]int{}
	count := func(name string) {
		if _, err := gpuOf(name); err != nil && name != "" {
			unknown[name]++
		}
	}
	for _, path := range paths {
		count(kernelGPU(path))
	}
	note(unknown, "file(s) of kernels/")
	for _, table := range []struct{ folder, file, column string }{
		{"layers", "vidur_layer_times.csv.gz", "device"}, {"endtoend", "splitwise_perf_medians.csv.gz", "hardware"},
	} {
		clear(unknown)
		err := readCSV(filepath.Join(data, table.folder, table.file), nil, func(r *row) { count(r.text(table.column)) })
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		note(unknown, "row(s) of "+table.folder+"/"+table.file)
	}
	return list, nil
}

// absentModels are named behind a model of the catalogue and are others, which
// learnt from it.
var absentModels = []string{"Distill", "DeepSeek-R1-0528-Qwen3-8B"}

// modelOf returns the model of a config.json, or of a folder that has one, or
// the one of the catalogue that a path names: a folder, a repository or one in
// Hugging Face's cache.
func modelOf(name string) (costmodel.Model, error) {
	if strings.HasSuffix(name, ".json") {
		return costmodel.LoadModel(name)
	}
	if config := filepath.Join(name, "config.json"); exists(config) {
		return costmodel.LoadModel(config)
	}
	var best costmodel.Model
	parts := strings.Split(filepath.ToSlash(name), "/")
	for i := len(parts) - 1; i >= 0 && best.Name == ""; i-- {
		part := parts[i]
		if at := strings.LastIndex(part, "--"); at >= 0 {
			part = part[at+2:]
		}
		part = strings.TrimPrefix(part, "Meta-")
		if slices.ContainsFunc(absentModels, func(other string) bool { return mentions(part, other) }) {
			continue
		}
		for _, m := range costmodel.Models() {
			if mentions(part, m.Name) && strings.HasPrefix(plain(part), plain(m.Name)) && len(m.Name) > len(best.Name) {
				best = m
			}
		}
	}
	if best.Name == "" {
		return best, fmt.Errorf("no model of the catalogue is named in %q; give its config.json", name)
	}
	return best, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// held reports whether a group of samples belongs to the half that no fit
// sees. It depends on the name only.
func held(group string) bool {
	h := uint32(2166136261)
	for i := range len(group) {
		h = (h ^ uint32(group[i])) * 16777619
	}
	return h>>7&1 == 1
}
