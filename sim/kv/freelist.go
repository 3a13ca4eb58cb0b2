package kv

import (
	"fmt"
	"iter"
)

// Block is the number of a block of memory. Numbers start at the number of
// reserved blocks, which are never given out.
type Block int32

// FreeList is a queue of blocks from which any member can be taken out: the
// first is reused next, freed ones go to the end. It is a doubly linked list
// threaded through an array by block number, so that every operation is O(1)
// and allocates only when a number exceeds all earlier ones. The zero FreeList
// is empty.
type FreeList struct {
	nodes []node // of block b at b+1; nodes[0] stands for both ends
	n     int
}

type node struct{ prev, next Block } // indices of nodes; prev is absent outside the list

const absent = -1

// Len returns the number of blocks in the list.
func (l *FreeList) Len() int { return l.n }

// First returns the block that Pop would take, and false if the list is empty.
func (l *FreeList) First() (Block, bool) {
	if l.n == 0 {
		return 0, false
	}
	return l.nodes[0].next - 1, true
}

// Last returns the block at the end, and false if the list is empty.
func (l *FreeList) Last() (Block, bool) {
	if l.n == 0 {
		return 0, false
	}
	return l.nodes[0].prev - 1, true
}

// Contains reports whether b is in the list.
func (l *FreeList) Contains(b Block) bool {
	return b >= 0 && int(b)+1 < len(l.nodes) && l.nodes[b+1].prev != absent
}

// Push appends b at the end. It panics if b is negative or in the list.
func (l *FreeList) Push(b Block) {
	if b < 0 || l.Contains(b) {
		panic(fmt.Sprintf("kv: FreeList.Push(%d) of a block that is negative or in the list", b))
	}
	if len(l.nodes) == 0 {
		l.nodes = append(l.nodes, node{})
	}
	for int(b)+1 >= len(l.nodes) {
		l.nodes = append(l.nodes, node{absent, absent})
	}
	last := l.nodes[0].prev
	l.nodes[b+1] = node{prev: last, next: 0}
	l.nodes[last].next = b + 1
	l.nodes[0].prev = b + 1
	l.n++
}

// Pop takes the first block out, and returns false if the list is empty.
func (l *FreeList) Pop() (Block, bool) {
	b, ok := l.First()
	if ok {
		l.Remove(b)
	}
	return b, ok
}

// Remove takes b out, wherever it is. It panics if b is not in the list.
func (l *FreeList) Remove(b Block) {
	if !l.Contains(b) {
		panic(fmt.Sprintf("kv: FreeList.Remove(%d) of a block that is not in the list", b))
	}
	x := l.nodes[b+1]
	l.nodes[x.prev].next = x.next
	l.nodes[x.next].prev = x.prev
	l.nodes[b+1] = node{absent, absent}
	l.n--
}

// All yields the blocks from first to last.
func (l *FreeList) All() iter.Seq[Block] {
	return func(yield func(Block) bool) {
		if l.n == 0 {
			return
		}
		for i := l.nodes[0].next; i != 0; i = l.nodes[i].next {
			if !yield(i - 1) {
				return
			}
		}
	}
}
