package main

import (
	"fmt"
	"path/filepath"
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

// aliases are names of measured devices that do not contain the catalogue's.
var aliases = map[string]string{
	"a100": "A100-80", "a100sxm": "A100-80", "a10080gb": "A100-80",
	"h100": "H100", "h100sxm": "H100", "h10080gb": "H100",
}

// gpuOf returns the GPU of the catalogue that a file, a folder or an engine
// names: the longest name that is part of it.
func gpuOf(name string) (costmodel.GPU, error) {
	key := plain(name)
	if known, ok := aliases[key]; ok {
		return costmodel.LookupGPU(known)
	}
	var best costmodel.GPU
	for _, g := range costmodel.GPUs() {
		if p := plain(g.Name); strings.Contains(key, p) && len(p) > len(plain(best.Name)) {
			best = g
		}
	}
	if best.Name == "" {
		return best, fmt.Errorf("no GPU of the catalogue is named in %q", name)
	}
	return best, nil
}

// modelOf returns the model of a config.json, or the one of the catalogue that
// a path on Hugging Face names.
func modelOf(name string) (costmodel.Model, error) {
	if strings.HasSuffix(name, ".json") {
		return costmodel.LoadModel(name)
	}
	key := plain(strings.TrimPrefix(filepath.Base(name), "Meta-"))
	var best costmodel.Model
	for _, m := range costmodel.Models() {
		if p := plain(m.Name); strings.HasPrefix(key, p) && len(p) > len(plain(best.Name)) {
			best = m
		}
	}
	if best.Name == "" {
		return best, fmt.Errorf("no model of the catalogue is named in %q; give its config.json", name)
	}
	return best, nil
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
