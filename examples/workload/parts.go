package main

import (
	"context"
	"slices"

	"servesim/workload"
)

// Parts is what prompts with retrieval are made of.
type Parts struct {
	// Shares are those of each kind in the tokens of all parts.
	Shares []PartShare `json:"shares"`
	// Tree is the share of the tokens of parts that is found behind equal
	// parts. Leading counts parts that any earlier prompt had, up to the first
	// that none had; Anywhere counts all of those.
	Tree     workload.Figure `json:"found_as_prefix"`
	Leading  workload.Figure `json:"found_leading"`
	Anywhere workload.Figure `json:"found_anywhere"`
	// TopSystemPrompt is the share of the rows that begin with the most
	// frequent part.
	TopSystemPrompt workload.Figure `json:"top_first_part"`
}

// PartShare is one kind of part.
type PartShare struct {
	Kind   string          `json:"kind"`
	Tokens workload.Figure `json:"tokens_share"`
}

// Sessions are the clients that ask again.
type Sessions struct {
	Sessions int              `json:"sessions"`
	Requests workload.Summary `json:"requests"`       // of a session
	Single   workload.Figure  `json:"of_one_request"` // share of the sessions
	// Pauses are the times, in seconds, that Between says.
	Pauses  workload.Summary `json:"pauses_s"`
	Between string           `json:"pauses_between"`
}

// part names a part of a prompt.
type part struct {
	kind workload.RAGKind
	id   uint64
}

// describeParts reads the rows in the order of the file.
func describeParts(ctx context.Context, o options) (*Parts, *Sessions, error) {
	type node struct {
		parent int
		part   part
	}
	nodes := map[node]int{} // the tree of prompts, by parent and part; 0 is the root
	seen, first := map[part]bool{}, map[part]int{}
	turns := map[string][]float64{}
	var tokens [workload.RAGKinds]int
	var all, tree, leading, anywhere, rows int
	for r, err := range o.ragPulse().Rows() {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, nil, err
		}
		rows++
		turns[r.Session] = append(turns[r.Session], r.At.Seconds())
		at, inTree, lead := 0, true, true
		for i, p := range r.Parts {
			name := part{p.Kind, p.ID}
			if i == 0 {
				first[name]++
			}
			all += p.Tokens
			tokens[p.Kind] += p.Tokens
			next, known := nodes[node{at, name}]
			if !known {
				next = len(nodes) + 1
				nodes[node{at, name}] = next
			}
			at = next
			inTree, lead = inTree && known, lead && seen[name]
			if inTree {
				tree += p.Tokens
			}
			if lead {
				leading += p.Tokens
			}
			if seen[name] {
				anywhere += p.Tokens
			}
		}
		for _, p := range r.Parts {
			seen[part{p.Kind, p.ID}] = true
		}
	}
	share := func(n int) workload.Figure { return workload.Figure(float64(n) / float64(all)) }
	out := &Parts{Tree: share(tree), Leading: share(leading), Anywhere: share(anywhere)}
	for kind := range workload.RAGKinds {
		out.Shares = append(out.Shares, PartShare{kind.String(), share(tokens[kind])})
	}
	top := 0
	for _, n := range first {
		top = max(top, n)
	}
	out.TopSystemPrompt = workload.Figure(float64(top) / float64(rows))
	return out, sessionsOf(turns), nil
}

// sessionsOf describes sessions by the times of their requests.
func sessionsOf(turns map[string][]float64) *Sessions {
	var counts, gaps []float64
	for _, times := range turns {
		slices.Sort(times)
		counts = append(counts, float64(len(times)))
		for i := 1; i < len(times); i++ {
			gaps = append(gaps, times[i]-times[i-1])
		}
	}
	return newSessions(counts, gaps, "requests")
}

func newSessions(counts, pauses []float64, between string) *Sessions {
	single := 0
	for _, n := range counts {
		if n == 1 {
			single++
		}
	}
	return &Sessions{
		Sessions: len(counts), Requests: workload.Summarise(counts),
		Single: workload.Figure(float64(single) / float64(len(counts))),
		Pauses: workload.Summarise(pauses), Between: between,
	}
}
