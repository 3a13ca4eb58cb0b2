package main

import (
	"time"

	"servesim/sim"
)

// at makes an instant of milliseconds.
func at(ms int) sim.Time { return sim.Time(time.Duration(ms) * time.Millisecond) }

// observed is a request with instants in ms.
func observed(id string, arrival, start, end int, tokens ...int) request {
	r := request{ID: id, Arrival: at(arrival), Start: at(start), End: at(end)}
	for _, t := range tokens {
		r.Tokens = append(r.Tokens, at(t))
	}
	return r
}

// lab is five requests. B has one token and no gap, and E waits three times as
// long as any other.
func lab() []request {
	return []request{
		observed("A", 0, 2, 8, 10, 14, 18, 22),
		observed("B", 2, 4, 10, 12),
		observed("C", 8, 16, 24, 27, 31, 35),
		observed("D", 18, 26, 30, 33, 37),
		observed("E", 3, 30, 42, 45, 49, 65),
	}
}

// late is the lab in which every token of E is delivered later, as by a proxy
// that holds the answer: nothing of the engine changes.
func late(by time.Duration) []request {
	requests := lab()
	tokens := requests[4].Tokens
	for i := range tokens {
		tokens[i] = tokens[i].Add(by)
	}
	return requests
}

// waiting is a request that waits 30 ms and works for 10, and for half of that.
func waiting() []request {
	return []request{
		observed("as it is", 0, 30, 40, 40),
		observed("half the work", 0, 30, 35, 35),
	}
}

// broken are requests that are refused.
func broken() []request {
	return []request{
		observed("no token", 0, 2, 8),
		observed("starts before it arrives", 5, 4, 8, 10),
		observed("ends before it starts", 0, 8, 7, 10),
		observed("token before the prompt's end", 0, 2, 8, 7),
		observed("tokens out of order", 0, 2, 8, 10, 14, 12),
	}
}
