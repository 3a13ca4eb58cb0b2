package kv

// Table lists the blocks of one sequence. The zero Table is empty. It belongs
// to the caller, who hands it to one [Cache] only and uses it for one sequence
// at a time; [Cache.FreeTable] makes it ready for the next and keeps its
// memory. It may be moved: copied, and the original set to zero.
type Table struct {
	blocks []Block // owned; before the first Allocate, what the lookup matched
	owned  int32   // number of blocks owned
	hashed int32   // leading blocks that are registered or were hit

	computed int32 // leading blocks that Cache.Computed has been told of, with Eager

	// Of the last lookup, until Allocate.
	matched int32  // leading blocks of the chain that were in the cache
	limit   int32  // blocks it could cover
	found   int32  // those of the matched that Allocate shares
	stored  uint64 // of the cache at that time
	removed uint64 // of the cache at that time, plus 1; 0 before any lookup

	holds int32 // transfers that may still read or write
	ended bool  // freed while held
}

// Len returns the number of blocks the sequence owns, shared ones included.
func (t *Table) Len() int { return int(t.owned) }

// Blocks returns the blocks the sequence owns by position. It is valid until
// the table is next used.
func (t *Table) Blocks() []Block { return t.blocks[:t.owned] }

// Found returns the blocks that the last lookup found and Allocate will share.
// It is valid until the table is next used.
func (t *Table) Found() []Block { return t.blocks[:t.found] }

// Held reports whether a transfer may still read or write the blocks.
func (t *Table) Held() bool { return t.holds > 0 }

// forget drops the lookup.
func (t *Table) forget() {
	t.matched, t.limit, t.found, t.stored, t.removed = 0, 0, 0, 0, 0
}

// reset makes the table empty and keeps its memory.
func (t *Table) reset() { *t = Table{blocks: t.blocks[:0]} }
