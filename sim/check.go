package sim

import (
	"fmt"

	"servesim/sim/kv"
)

// recount compares the replica's running sums with a count over its
// sequences. It is what Config.Check does after every pass.
func (st *Stepper) recount() error {
	var owned, context, members, crossing, pending int
	for s := range st.running.all {
		if !s.hashed {
			owned += s.Blocks()
		}
		if s.Blocks() < st.memory.Blocks(s.Context()) {
			return st.differs(fmt.Sprintf("blocks of request %d", s.req.ID), s.Blocks(), st.memory.Blocks(s.Context()))
		}
		if s.member.in {
			members++
			context += s.Context()
			if s.member.crosses && s.Blocks()*len(st.cohort.crossing) == s.Context() != st.cohort.crossesNow(s) {
				return st.differs(fmt.Sprintf("next block of request %d", s.req.ID), s.Blocks(), s.Context())
			}
		}
		if st.prefilling.contains(s) {
			pending += s.Pending()
		}
	}
	for _, l := range st.lines() {
		for s := range l.all {
			if !s.hashed {
				owned += s.Blocks()
			}
			pending += s.uncomputed()
			if s.Blocks() > 0 && !s.pulled && s.state != Pulling {
				return st.differs(fmt.Sprintf("blocks of request %d, which waits", s.req.ID), s.Blocks(), 0)
			}
		}
	}
	held, host := 0, 0
	for s := range st.swapped.all {
		host += s.hostBlocks
	}
	for _, a := range st.accounts {
		held += a.blocks
		if !a.hashed {
			owned += a.blocks
		}
	}
	if err := st.recountCache(); err != nil {
		return err
	}
	for _, n := range st.cohort.crossing {
		crossing += n
	}
	for _, c := range []struct {
		what      string
		got, want int
	}{
		{"blocks owned by count", st.counted(), owned + st.retained.blocks},
		{"members", st.cohort.n, members},
		{"context", st.cohort.context, context},
		{"Load.PendingPrompt", st.load.PendingPrompt, pending},
		{"Load.Waiting", st.load.Waiting, st.inLine()},
		{"host blocks", st.host.Owned(), host},
		{"Load.Held", st.load.Held, held},
		{"Load.Coming", st.load.Coming, st.coming.n},
		{"Load.Running", st.load.Running, st.running.n},
		{"Load.FreeBlocks", st.load.FreeBlocks, st.memory.Free()},
	} {
		if c.got != c.want {
			return st.differs(c.what, c.got, c.want)
		}
	}
	if crossing > members {
		return st.differs("crossing", crossing, members)
	}
	return nil
}

// recountIfAsked is recount with Config.Check.
func (st *Stepper) recountIfAsked() error {
	if !st.hub.check {
		return nil
	}
	return st.recount()
}

// lines returns the lists of those who wait for admission.
func (st *Stepper) lines() []*list {
	return []*list{&st.waiting.list, &st.remote.list, &st.pulling.list, &st.swapped}
}

func (st *Stepper) differs(what string, got, want int) error {
	return fmt.Errorf("sim: Config.Check: replica %d at %v: %s: %d, recounted %d", st.index, st.hub.now, what, got, want)
}

// counted returns the blocks that sequences without hashes own.
func (st *Stepper) counted() int {
	if m := &st.memory; m.cache != nil && !m.apart {
		return m.cache.Anonymous()
	}
	return st.memory.pool.Owned()
}

// recountCache lets the prefix cache recount itself over the tables in use.
func (st *Stepper) recountCache() error {
	if st.memory.cache == nil {
		return nil
	}
	err := st.memory.cache.Check(func(yield func(*kv.Table) bool) {
		for _, l := range append(st.lines(), &st.running) {
			for s := range l.all {
				if s.hashed && s.table.Len() > 0 && !yield(&s.table) {
					return
				}
			}
		}
		for _, a := range st.accounts {
			if a.hashed && a.table.Len() > 0 && !yield(&a.table) {
				return
			}
		}
		for i := range st.retained.tables {
			if !yield(&st.retained.tables[i]) {
				return
			}
		}
	})
	if err != nil {
		return fmt.Errorf("sim: Config.Check: replica %d at %v: %w", st.index, st.hub.now, err)
	}
	return nil
}
