package servesim_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// arrows are the imports that each package may have beside the standard
// library: packages of this module, and modules of others. Tests may import
// more.
var arrows = map[string]struct{ ours, others []string }{
	"sim/kv":         {},
	"sim":            {ours: []string{"sim/kv"}},
	"scheduler":      {ours: []string{"sim", "sim/kv"}},
	"costmodel":      {ours: []string{"sim", "sim/kv"}, others: []string{"gonum.org/v1/gonum"}},
	"workload":       {ours: []string{"sim", "sim/kv", "sim/trace"}, others: []string{"gonum.org/v1/gonum", "golang.org/x/exp/rand"}},
	"sim/metrics":    {ours: []string{"sim", "sim/kv"}, others: []string{"gonum.org/v1/gonum", "github.com/HdrHistogram/hdrhistogram-go"}},
	"sim/trace":      {ours: []string{"sim", "sim/kv"}},
	"sim/simtest":    {ours: []string{"sim", "sim/kv"}, others: []string{"github.com/google/go-cmp"}},
	"sim/profile":    {ours: []string{"sim/trace"}, others: []string{"gonum.org/v1/gonum"}},
	"sim/experiment": {ours: []string{"sim", "sim/metrics"}, others: []string{"gonum.org/v1/gonum"}},
}

// source is a file of the module that is no test.
type source struct {
	dir, name string // slash-separated, from the root
	file      *ast.File
	fset      *token.FileSet
}

func (s source) at(n ast.Node) string { return s.fset.Position(n.Pos()).String() }

func (s source) example() bool { return strings.HasPrefix(s.dir+"/", "examples/") }

// imports returns the import path behind each package name of the file.
func (s source) imports() map[string]string {
	out := map[string]string{}
	for _, i := range s.file.Imports {
		p, _ := strconv.Unquote(i.Path.Value)
		name := path.Base(p)
		if name == "v2" {
			name = path.Base(path.Dir(p))
		}
		if i.Name != nil {
			name = i.Name.Name
		}
		out[name] = p
	}
	return out
}

// uses calls f for every name that the file takes from a package.
func (s source) uses(f func(n ast.Node, pkg, name string)) {
	imports := s.imports()
	ast.Inspect(s.file, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && x.Obj == nil && imports[x.Name] != "" {
				f(n, imports[x.Name], sel.Sel.Name)
			}
		}
		return true
	})
}

// sources parses every file of the module but tests and nested modules.
func sources(t *testing.T) (out []source) {
	t.Helper()
	fset := token.NewFileSet()
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, nested := os.Stat(filepath.Join(name, "go.mod"))
			if name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || nested == nil) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		out = append(out, source{path.Dir(name), name, file, fset})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 20 {
		t.Fatalf("only %d files found", len(out))
	}
	return out
}

// The top level holds these folders and no other.
func TestFolders(t *testing.T) {
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			got = append(got, e.Name())
		}
	}
	if d := cmp.Diff([]string{"costmodel", "examples", "scheduler", "sim", "workload"}, got); d != "" {
		t.Errorf("folders (-want +got):\n%s", d)
	}
}

func TestImportArrows(t *testing.T) {
	const module = "servesim/"
	for _, s := range sources(t) {
		if s.example() {
			continue
		}
		allowed, ok := arrows[s.dir]
		if !ok {
			t.Errorf("%s: package %s has no place in the layout", s.name, s.dir)
			continue
		}
		for _, i := range s.file.Imports {
			p, _ := strconv.Unquote(i.Path.Value)
			ours, isOurs := strings.CutPrefix(p, module)
			domain, _, _ := strings.Cut(p, "/")
			switch {
			case isOurs && !slices.Contains(allowed.ours, ours):
				t.Errorf("%s: %s must not import %s", s.at(i), s.dir, ours)
			case isOurs || !strings.Contains(domain, "."):
			case !slices.ContainsFunc(allowed.others, func(o string) bool { return p == o || strings.HasPrefix(p, o+"/") }):
				t.Errorf("%s: %s must not import %s", s.at(i), s.dir, p)
			case p == "golang.org/x/exp/rand" && s.name != "workload/rand.go":
				t.Errorf("%s: only workload/rand.go imports %s", s.at(i), p)
			}
		}
	}
}

// clock are the names of package time that look at the wall clock.
var clock = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}

// The library reads no clock, draws no global random number and logs nothing.
// The engine and the policies start no goroutine.
func TestDeterministic(t *testing.T) {
	for _, s := range sources(t) {
		if s.example() {
			continue
		}
		s.uses(func(n ast.Node, pkg, name string) {
			switch {
			case pkg == "time" && slices.Contains(clock, name):
				t.Errorf("%s: time.%s reads the wall clock", s.at(n), name)
			case pkg == "math/rand", pkg == "log", pkg == "log/slog", pkg == "fmt" && strings.HasPrefix(name, "Print"):
				t.Errorf("%s: %s.%s has no place in the library", s.at(n), pkg, name)
			case strings.HasSuffix(pkg, "/rand") && globalRandom(name), pkg == "math/rand/v2" && globalRandom(name):
				t.Errorf("%s: %s.%s is a global random function", s.at(n), pkg, name)
			}
		})
		if !slices.Contains([]string{"sim", "sim/kv", "scheduler"}, s.dir) {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if _, ok := n.(*ast.GoStmt); ok {
				t.Errorf("%s: a goroutine", s.at(n))
			}
			return true
		})
	}
}

// globalRandom reports whether a name of a random package is neither a
// constructor nor a type.
func globalRandom(name string) bool {
	return !strings.HasPrefix(name, "New") && !slices.Contains([]string{"Rand", "Source", "Source64", "PCG", "PCGSource", "ChaCha8", "Zipf", "LockedSource"}, name)
}

// No init functions anywhere. Package-level variables of the library are error
// sentinels and tables: literals that nobody writes to.
func TestNoHiddenState(t *testing.T) {
	for _, s := range sources(t) {
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil && d.Name.Name == "init" {
					t.Errorf("%s: an init function", s.at(d))
				}
			case *ast.GenDecl:
				if d.Tok != token.VAR || s.example() {
					continue
				}
				for _, spec := range d.Specs {
					v := spec.(*ast.ValueSpec)
					for i, name := range v.Names {
						if name.Name != "_" && !embedded(d) && (i >= len(v.Values) || !constant(v.Values[i])) {
							t.Errorf("%s: variable %s is neither an error sentinel nor a table", s.at(v), name.Name)
						}
					}
				}
			}
		}
		s.writes(t)
	}
}

// embedded reports whether the declaration holds the text of a file.
func embedded(d *ast.GenDecl) bool {
	return d.Doc != nil && slices.ContainsFunc(d.Doc.List, func(c *ast.Comment) bool { return strings.HasPrefix(c.Text, "//go:embed ") })
}

// constant reports whether x is a literal or the call of errors.New.
func constant(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.CompositeLit, *ast.BasicLit:
		return true
	case *ast.CallExpr:
		f, ok := x.Fun.(*ast.SelectorExpr)
		return ok && (f.Sel.Name == "New" && name(f.X) == "errors" || f.Sel.Name == "Errorf" && name(f.X) == "fmt")
	}
	return false
}

func name(x ast.Expr) string {
	if id, ok := x.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

// writes reports assignments to package-level variables, or to their elements,
// as far as one file shows them.
func (s source) writes(t *testing.T) {
	if s.example() {
		return
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		assign, ok := n.(*ast.AssignStmt)
		if !ok || assign.Tok == token.DEFINE {
			return true
		}
		for _, x := range assign.Lhs {
			if i, ok := x.(*ast.IndexExpr); ok {
				x = i.X
			}
			if id, ok := x.(*ast.Ident); ok && id.Obj != nil && s.file.Scope.Objects[id.Name] == id.Obj && id.Obj.Kind == ast.Var {
				t.Errorf("%s: the package-level variable %s is written", s.at(n), id.Name)
			}
		}
		return true
	})
}
