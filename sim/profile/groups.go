package profile

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Group splits the requests by one property.
type Group struct {
	By    string `json:"by"` // class, prompt_tokens, cache or route
	Cells []Cell `json:"cells"`
}

// Cell describes the requests that share a value. Where they are Few, their
// latencies are undefined: numbers of a handful are no facts.
type Cell struct {
	Name string `json:"name"`
	N    int    `json:"n"`
	Few  bool   `json:"few"`

	P50TTFT      Number `json:"p50_ttft_ms"`
	P95TTFT      Number `json:"p95_ttft_ms"`
	P95ITL       Number `json:"p95_itl_ms"`
	P95E2E       Number `json:"p95_e2e_ms"`
	DominantTTFT string `json:"dominant_ttft_phase"` // "" where few
	DominantE2E  string `json:"dominant_e2e_phase"`
}

// maxCells bounds the cells of a group; the smallest share one.
const maxCells = 20

// notRecorded names the value of requests that lack it.
const notRecorded = "not recorded"

// dimension is a property by which requests are grouped.
type dimension struct {
	name    string
	of      func(*row) string
	ordered bool // the cells are the prompt bands, in their order
}

// dimensions are those that the trace records.
func (p *Profiler) dimensions() (list []dimension) {
	named := func(s string) string {
		if s == "" {
			return notRecorded
		}
		return s
	}
	if p.classes.recorded() {
		list = append(list, dimension{name: "class", of: func(r *row) string { return named(p.classes.list[r.class]) }})
	}
	list = append(list, dimension{name: "prompt_tokens", ordered: true, of: func(r *row) string { return p.bandName(p.band(r)) }})
	if p.cached {
		list = append(list, dimension{name: "cache", of: cacheStatus})
	}
	if p.routes.recorded() {
		list = append(list, dimension{name: "route", of: func(r *row) string { return named(p.routes.list[r.route]) }})
	}
	return list
}

func (p *Profiler) band(r *row) int {
	i, _ := slices.BinarySearch(p.options.PromptBands, r.prompt)
	return i
}

func (p *Profiler) bandName(i int) string {
	bands := p.options.PromptBands
	switch {
	case len(bands) == 0:
		return "all"
	case i == 0:
		return "≤ " + strconv.Itoa(bands[0])
	case i == len(bands):
		return "> " + strconv.Itoa(bands[i-1])
	}
	return fmt.Sprintf("%d–%d", bands[i-1]+1, bands[i])
}

// cacheStatus: a prompt is a hit where all of it but the last block may have
// been found, since the last token is computed anyway. Half is the border.
func cacheStatus(r *row) string {
	switch {
	case r.cached < 0:
		return notRecorded
	case r.cached == 0:
		return "miss"
	case 2*r.cached < r.prompt:
		return "under half"
	}
	return "half or more"
}

func (p *Profiler) groups(rows []*row) []Group {
	groups := []Group{}
	for _, d := range p.dimensions() {
		members := map[string][]*row{}
		for _, r := range rows {
			members[d.of(r)] = append(members[d.of(r)], r)
		}
		groups = append(groups, Group{By: d.name, Cells: p.cells(d, members)})
	}
	return groups
}

func (p *Profiler) cells(d dimension, members map[string][]*row) []Cell {
	names := make([]string, 0, len(members))
	for name := range members {
		names = append(names, name)
	}
	if d.ordered {
		slices.SortFunc(names, func(a, b string) int { return cmp.Compare(members[a][0].prompt, members[b][0].prompt) })
	} else { // the largest first
		slices.SortFunc(names, func(a, b string) int {
			return cmp.Or(cmp.Compare(len(members[b]), len(members[a])), strings.Compare(a, b))
		})
	}
	var others []*row
	folded := 0
	if !d.ordered && len(names) > maxCells {
		for _, name := range names[maxCells-1:] {
			others = append(others, members[name]...)
			folded++
		}
		names = names[:maxCells-1]
	}
	cells := []Cell{}
	for _, name := range names {
		cells = append(cells, p.cell(name, members[name]))
	}
	if folded > 0 {
		cells = append(cells, p.cell(plural(folded, "other"), others))
	}
	return cells
}

func (p *Profiler) cell(name string, rows []*row) Cell {
	if len(rows) < p.options.MinCell {
		none := undefined()
		return Cell{Name: name, N: len(rows), Few: true, P50TTFT: none, P95TTFT: none, P95ITL: none, P95E2E: none}
	}
	f := p.figures(rows)
	return Cell{Name: name, N: len(rows), P50TTFT: f.ttft.P50, P95TTFT: f.ttft.P95, P95ITL: f.itl.P95, P95E2E: f.e2e.P95,
		DominantTTFT: f.dominantTTFT.Phase, DominantE2E: f.dominantE2E.Phase}
}
