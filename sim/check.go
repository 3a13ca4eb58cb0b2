package sim

import "fmt"

// recount compares the replica's running sums with a count over its
// sequences. It is what Config.Check does after every pass.
func (st *Stepper) recount() error {
	var owned, context, members, crossing, pending int
	for s := range st.running.all {
		owned += s.Blocks()
		if s.Blocks() < st.pool.Blocks(s.Context()) {
			return st.differs(fmt.Sprintf("blocks of request %d", s.req.ID), s.Blocks(), st.pool.Blocks(s.Context()))
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
	for s := range st.waiting.all {
		owned += s.Blocks()
		pending += s.Pending()
	}
	for _, n := range st.cohort.crossing {
		crossing += n
	}
	for _, c := range []struct {
		what      string
		got, want int
	}{
		{"owned blocks", st.pool.Owned(), owned + st.retained.blocks},
		{"members", st.cohort.n, members},
		{"context", st.cohort.context, context},
		{"Load.PendingPrompt", st.load.PendingPrompt, pending},
		{"Load.Waiting", st.load.Waiting, st.waiting.n},
		{"Load.Running", st.load.Running, st.running.n},
		{"Load.FreeBlocks", st.load.FreeBlocks, st.pool.Free()},
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

func (st *Stepper) differs(what string, got, want int) error {
	return fmt.Errorf("sim: Config.Check: replica %d at %v: %s: %d, recounted %d", st.index, st.hub.now, what, got, want)
}
