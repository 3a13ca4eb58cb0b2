package kv

// State says who may use a block.
type State uint8

// The states of a block.
const (
	Free   State = iota // nobody; its content may still be found
	Owned               // one sequence
	Shared              // several sequences
	Held                // a transfer may still read or write it, whoever owns it besides
)

// String returns the state's name in lower case.
func (s State) String() string { return [...]string{"free", "owned", "shared", "held"}[s] }

// State returns the state of a numbered block. Blocks owned by count have no
// numbers.
func (c *Cache) State(b Block) State {
	if int(b) >= len(c.blocks) {
		return Free
	}
	switch x := c.blocks[b]; {
	case x.holds > 0:
		return Held
	case x.refs > 1:
		return Shared
	case x.refs == 1:
		return Owned
	}
	return Free
}

// Held returns the number of blocks that a transfer may still read or write.
func (c *Cache) Held() int { return c.held }

// Hold keeps the blocks of t from being reused until Release, even if the
// sequence ends or is aborted in between: a transfer reads or writes them. Each
// reader holds once. It panics if t owns nothing or has been freed.
func (c *Cache) Hold(t *Table) {
	if t.owned == 0 || t.ended {
		panic("kv: Hold of a sequence that owns no blocks")
	}
	t.holds++
	if t.holds > 1 {
		return
	}
	for _, b := range t.Blocks() {
		x := &c.blocks[b]
		x.holds++
		if x.holds == 1 {
			c.held++
		}
	}
}

// Release ends one Hold. After the last one the sequence owns its blocks as
// before, or, if it was freed meanwhile, they are freed and t is empty. It
// panics if t is not held.
func (c *Cache) Release(t *Table) {
	if !t.Held() {
		panic("kv: Release of a sequence that is not held")
	}
	t.holds--
	if t.holds > 0 {
		return
	}
	for _, b := range t.Blocks() {
		x := &c.blocks[b]
		x.holds--
		if x.holds == 0 {
			c.held--
		}
	}
	if t.ended {
		t.ended = false
		c.FreeTable(t)
	}
}
