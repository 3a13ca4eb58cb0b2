package kv_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// The cases of ../shared/conformance/scheduler_cases.json that are about
// blocks run through the exported functions. Adapters translate names and
// order arguments; every number they report comes from the package.

type conformanceCase struct {
	ID       string
	Family   string
	Kind     string
	Function string
	Config   kvConfig
	Requests []kvRequest
	Steps    []kvStep
	Rows     []row
}

type row struct {
	Input    json.RawMessage
	Expect   map[string]any
	Asserted []string
}

// uncovered says why a function of the families below is not run here.
var uncovered = map[string]string{
	"scheduling_budget": "token and sequence budgets belong to the scheduler's plan, not to block accounting",
}

// score counts cases and asserted expectations.
type score struct{ passed, cases, assertedPassed, asserted int }

func (s score) String() string {
	return fmt.Sprintf("passed %d of %d (asserted %d of %d)", s.passed, s.cases, s.assertedPassed, s.asserted)
}

func TestConformance(t *testing.T) {
	scores := map[string]*score{}
	var left []string
	for _, c := range conformanceCases(t) {
		name := family(c)
		if name == "" {
			continue
		}
		s := scores[name]
		if s == nil {
			s = &score{}
			scores[name] = s
		}
		s.cases++
		if why := uncovered[c.Function]; why != "" {
			for _, r := range c.Rows {
				s.asserted += len(r.Asserted)
			}
			left = append(left, c.ID+": "+why)
			continue
		}
		ok := t.Run(c.ID, func(t *testing.T) { c.run(t, s) })
		s.passed += one(ok)
	}
	var total score
	names := make([]string, 0, len(scores))
	for n, s := range scores {
		names = append(names, n)
		total = score{total.passed + s.passed, total.cases + s.cases, total.assertedPassed + s.assertedPassed, total.asserted + s.asserted}
	}
	slices.Sort(names)
	for _, n := range names {
		t.Logf("conformance: %v in %s", scores[n], n)
	}
	t.Logf("conformance: %v in total", total)
	for _, l := range left {
		t.Logf("not covered: %s", l)
	}
}

// family returns the name under which a case is counted here, "" if it is not
// about blocks.
func family(c conformanceCase) string {
	switch {
	case c.Family == "kv_blocks", c.Family == "memory", c.Family == "pd_transfer" && c.Kind == "math":
		return c.Family
	case c.Kind == "block_manager":
		return c.Family + " (block_manager)"
	}
	return ""
}

func (c *conformanceCase) run(t *testing.T, s *score) {
	if c.Kind == "kv" {
		c.runSteps(t, s)
		return
	}
	f := functions[c.Function]
	for i, r := range c.Rows {
		var got map[string]any
		if f != nil {
			got = f(t, r.Input)
		} else {
			t.Errorf("no adapter for function %q", c.Function)
		}
		compare(t, fmt.Sprintf("row %d %s", i, r.Input), got, r.Expect, r.Asserted, s)
	}
}

// compare checks all expected keys and counts the asserted ones.
func compare(t *testing.T, where string, got, want map[string]any, asserted []string, s *score) {
	t.Helper()
	wrong := map[string]bool{}
	for key, w := range want {
		g, ok := got[key]
		if !ok || !same(normal(t, g), w) {
			wrong[key] = true
			t.Errorf("%s: %s = %v, want %v", where, key, g, w)
		}
	}
	for _, a := range asserted {
		key, _, _ := strings.Cut(a, ":")
		s.asserted++
		s.assertedPassed += one(!wrong[key])
	}
}

// normal brings a value into the form that encoding/json gives.
func normal(t *testing.T, v any) any {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// same compares numbers with a relative tolerance of 1e-9, the rest exactly.
func same(got, want any) bool {
	g, ok1 := got.(float64)
	w, ok2 := want.(float64)
	if ok1 && ok2 {
		return math.Abs(g-w) <= 1e-9*math.Abs(w)
	}
	return reflect.DeepEqual(got, want)
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

func conformanceCases(t *testing.T) []conformanceCase {
	t.Helper()
	path := os.Getenv("SERVESIM_CONFORMANCE")
	if path == "" {
		path = shared(t, "conformance/scheduler_cases.json")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []json.RawMessage }
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	var cases []conformanceCase
	for i, raw := range file.Cases {
		var head struct{ Family, Kind string }
		if err := json.Unmarshal(raw, &head); err != nil {
			t.Fatalf("%s: case %d: %v", path, i, err)
		}
		if family(conformanceCase{Family: head.Family, Kind: head.Kind}) == "" {
			continue
		}
		var c conformanceCase
		if err := json.Unmarshal(raw, &c); err != nil {
			t.Fatalf("%s: case %d: %v", path, i, err)
		}
		cases = append(cases, c)
	}
	return cases
}

// shared finds a file of the material beside the repository, or skips.
func shared(t testing.TB, name string) string {
	t.Helper()
	root := os.Getenv("SERVESIM_SHARED")
	if root == "" {
		dir, err := os.Getwd()
		if err != nil {
			t.Fatal(err)
		}
		for !exists(filepath.Join(dir, "go.mod")) {
			if dir == filepath.Dir(dir) {
				t.Skip("no go.mod above the test")
			}
			dir = filepath.Dir(dir)
		}
		root = filepath.Join(dir, "..", "shared")
	}
	path := filepath.Join(root, filepath.FromSlash(name))
	if !exists(path) {
		t.Skipf("no shared/%s", name)
	}
	return path
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
