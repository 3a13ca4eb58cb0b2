//go:build go1.24

package kv_test

import (
	"fmt"
	"testing"

	"servesim/sim/kv"
)

// A request of 24 blocks, half of them found, comes and goes; the cache is full,
// so that every fresh block evicts another.
func BenchmarkRequestHalfHit(b *testing.B) {
	for _, size := range []int{1_000, 30_000, 1_000_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			const blocks, half = 24, 12
			c := kv.NewCache(size, 0, 16)
			chains := make([][]kv.Hash, size/half*3/2)
			for i := range chains {
				// Sixteen beginnings; ends return after everything was evicted once.
				chains[i] = append(chain(fmt.Sprint("common", i%16), half), chain(fmt.Sprint(i), half)...)
			}
			var t kv.Table
			run := func(i int) int {
				chain := chains[i%len(chains)]
				hit := c.Lookup(&t, chain, blocks*16)
				if !c.Allocate(&t, chain, blocks*16, 0) {
					b.Fatal("refused")
				}
				c.FreeTable(&t)
				return hit
			}
			for i := range 2 * len(chains) {
				run(i)
			}
			b.ReportAllocs()
			hits, n := 0, 0
			for b.Loop() {
				hits += run(n)
				n++
			}
			b.ReportMetric(float64(hits)/float64(n*blocks), "hit/block")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n*blocks), "ns/block")
		})
	}
}

// The head of the queue is refused again and again while nothing changes.
func BenchmarkRefusedHead(b *testing.B) {
	c := kv.NewCache(100, 0, 16)
	var a, head kv.Table
	prompt := chain("p", 90)
	if !c.Allocate(&a, prompt, 90*16, 0) {
		b.Fatal("refused")
	}
	b.ReportAllocs()
	for b.Loop() {
		c.Lookup(&head, prompt, 110*16)
		if c.Allocate(&head, prompt, 110*16, 0) {
			b.Fatal("not refused")
		}
	}
}

// A hashed sequence decodes: one token a step.
func BenchmarkDecode(b *testing.B) {
	c := kv.NewCache(1_000, 0, 16)
	prompt := chain("p", 900)
	var t kv.Table
	tokens := 0
	b.ReportAllocs()
	for b.Loop() {
		if tokens++; tokens > 900*16 {
			c.FreeTable(&t)
			tokens = 1
		}
		c.Allocate(&t, prompt, tokens, 0)
	}
}

// The count-only path: a batch grows by 64 blocks a step and gives 64 back, in
// the pool and in a cache whose free list holds content too.
func BenchmarkByCount(b *testing.B) {
	b.Run("pool", func(b *testing.B) {
		p := kv.NewPool(10_000, 0, 16)
		for b.Loop() {
			p.Take(64)
			p.Give(64)
		}
	})
	b.Run("cache", func(b *testing.B) {
		c := kv.NewCache(10_000, 0, 16)
		c.Take(9_000)
		b.ReportAllocs()
		for b.Loop() {
			c.Take(64)
			c.Give(64)
		}
	})
	b.Run("cache with evictions", func(b *testing.B) {
		c := kv.NewCache(2_000, 0, 16)
		c.Take(1_000)
		var t kv.Table
		prompt := chain("p", 64)
		b.ReportAllocs()
		for b.Loop() {
			c.Allocate(&t, prompt, 64*16, 0)
			c.FreeTable(&t)
			c.Take(1_000) // 936 by count, 64 with content
			c.Give(1_000)
		}
	})
}
