package simtest

import (
	"errors"
	"fmt"
	"iter"
	"reflect"
	"testing"

	"servesim/sim"
)

// MostRequests is how many requests of a workload TestWorkload looks at, so
// that workloads without end can be tested.
const MostRequests = 10_000

// TestWorkload tests the first [MostRequests] requests of a workload and
// reports what is not so:
//
//   - It yields requests, and no error.
//   - Arrivals are ≥ 0 and never go back; prompts and outputs are ≥ 1; no
//     other number is negative.
//   - Another iterator of requests yields the same, also when both are read in
//     turn, and after one was left in the middle.
//   - An iterator that is left yields nothing more.
//
// requests returns a fresh iterator at every call, with the same seed. Whether
// ids are unique in flight depends on how long requests take, and is left to
// [sim.Run].
func TestWorkload(t testing.TB, requests func() iter.Seq2[sim.Request, error]) {
	t.Helper()
	all, err := firstRequests(requests(), MostRequests)
	if err != nil {
		t.Errorf("%v", err)
		return
	}
	if len(all) == 0 {
		t.Errorf("the workload is empty")
		return
	}
	if err := validRequests(all); err != nil {
		t.Errorf("%v", err)
	}
	for _, k := range []int{1, 2, len(all)/2 + 1} {
		part, err := firstRequests(requests(), min(k, len(all)))
		if err == nil {
			err = sameRequests(all[:min(k, len(all))], part)
		}
		if err != nil {
			t.Errorf("left after %d requests: %v", k, err)
			return
		}
	}
	again, err := firstRequests(requests(), MostRequests)
	if err == nil {
		err = sameRequests(all, again)
	}
	if err != nil {
		t.Errorf("read again: %v", err)
		return
	}
	if err := readInTurn(all, requests); err != nil {
		t.Errorf("two iterators read in turn: %v", err)
	}
}

// errNotLeft ends an iteration that goes on after its loop was left.
var errNotLeft = errors.New("goes on after the loop was left")

// firstRequests reads up to n requests.
func firstRequests(requests iter.Seq2[sim.Request, error], n int) (out []sim.Request, err error) {
	left := false
	defer func() {
		switch p := recover(); p {
		case nil:
		case errNotLeft:
			err = errNotLeft
		default:
			panic(p)
		}
	}()
	requests(func(r sim.Request, e error) bool {
		switch {
		case left:
			panic(errNotLeft)
		case e != nil:
			err = fmt.Errorf("requests[%d]: %w", len(out), e)
			left = true
			return false
		}
		out = append(out, r)
		left = len(out) == n
		return !left
	})
	return out, err
}

func validRequests(all []sim.Request) error {
	last := sim.Time(0)
	for i, r := range all {
		for _, f := range []struct {
			name  string
			value int64
			least int64
		}{
			{"Arrival", int64(r.Arrival), int64(last)},
			{"Prompt", int64(r.Prompt), 1},
			{"Output", int64(r.Output), 1},
			{"MaxOutput", int64(r.MaxOutput), 0},
			{"Hint", int64(r.Hint), 0},
			{"Class", int64(r.Class), 0},
			{"Deadline", int64(r.Deadline), 0},
			{"Patience.First", int64(r.Patience.First), 0},
			{"Patience.Total", int64(r.Patience.Total), 0},
			{"Attempt", int64(r.Attempt), 0},
			{"First", int64(r.First), 0},
		} {
			if f.value < f.least {
				return fmt.Errorf("requests[%d] (id %d): %s is %d, less than %d", i, r.ID, f.name, f.value, f.least)
			}
		}
		last = r.Arrival
	}
	return nil
}

func sameRequests(want, got []sim.Request) error {
	for i := range max(len(want), len(got)) {
		switch {
		case i == len(got):
			return fmt.Errorf("%d requests, then %d", len(want), len(got))
		case i == len(want):
			return fmt.Errorf("%d requests, then %d or more", len(want), len(got))
		case !reflect.DeepEqual(want[i], got[i]):
			return fmt.Errorf("requests[%d] is %+v, then %+v", i, want[i], got[i])
		}
	}
	return nil
}

// readInTurn reads two iterators in turn.
func readInTurn(want []sim.Request, requests func() iter.Seq2[sim.Request, error]) error {
	var got [2][]sim.Request
	var next [2]func() (sim.Request, error, bool)
	for i := range next {
		n, stop := iter.Pull2(requests())
		defer stop()
		next[i] = n
	}
	for range want {
		for i := range next {
			r, err, ok := next[i]()
			switch {
			case err != nil:
				return fmt.Errorf("requests[%d]: %w", len(got[i]), err)
			case ok:
				got[i] = append(got[i], r)
			}
		}
	}
	for i := range got {
		if err := sameRequests(want, got[i]); err != nil {
			return err
		}
	}
	return nil
}
