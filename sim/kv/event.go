package kv

// Event tells those who mirror the content of a cache, such as a router with
// prefix affinity, what changed.
type Event struct {
	Kind   EventKind
	Hashes []Hash // stored: one chain's new blocks by position; removed: one block; valid during the call
}

// EventKind says what happened.
type EventKind uint8

// The kinds of events.
const (
	Stored  EventKind = iota // blocks can be found
	Removed                  // a block was reused; a duplicate may remain
	Cleared                  // all content was forgotten
)

// String returns the kind's name in lower case.
func (k EventKind) String() string { return [...]string{"stored", "removed", "cleared"}[k] }
