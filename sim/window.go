package sim

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// Window is a time in which a replica or its link is not itself: slower, faster
// or stopped.
type Window struct {
	Replica int
	// Link means the port of the replica, in both directions, or with Replica
	// -1 every port and the fabric. Factor multiplies the time of a byte there,
	// from one edge of the window to the other.
	Link bool
	// The window covers the steps that start at From or later and before To.
	From, To Time
	// Factor multiplies the time of those steps: 2 makes a straggler of half
	// the speed. It must be positive, or 0 with Pause.
	Factor float64
	// Pause lets no step start. A step in flight ends as planned, requests go
	// on arriving, and the replica plans again at To.
	Pause bool
}

// windows are those of one replica, in order of time.
type windows struct {
	list []Window
	next int // the first that is not over
}

// validateWindows reports the first window that cannot be, or that overlaps
// another of its replica.
func validateWindows(all []Window, replicas int, link *Link) error {
	for i, w := range all {
		switch {
		case w.Link && link == nil:
			return fmt.Errorf("sim: Config.Windows[%d].Link is set and Config.Link is nil", i)
		case w.Replica < -one(w.Link) || w.Replica >= replicas:
			return fmt.Errorf("sim: Config.Windows[%d].Replica is %d of %d", i, w.Replica, replicas)
		case w.From < 0 || w.To <= w.From:
			return fmt.Errorf("sim: Config.Windows[%d] is from %d to %d", i, int64(w.From), int64(w.To))
		case w.Pause != (w.Factor == 0) || !(w.Factor >= 0) || math.IsInf(w.Factor, 0):
			return fmt.Errorf("sim: Config.Windows[%d].Factor is %v with Pause %v", i, w.Factor, w.Pause)
		}
		for j, o := range all[:i] {
			if o.Link == w.Link && o.Replica == w.Replica && o.From < w.To && w.From < o.To {
				return fmt.Errorf("sim: Config.Windows[%d] and [%d] of replica %d overlap", j, i, w.Replica)
			}
		}
	}
	return nil
}

// windowsOf returns the windows of one replica.
func windowsOf(all []Window, replica int) (w windows) {
	for _, x := range all {
		if x.Replica == replica && !x.Link {
			w.list = append(w.list, x)
		}
	}
	slices.SortFunc(w.list, func(a, b Window) int { return cmp.Compare(a.From, b.From) })
	return w
}

// at returns the window that covers now, or nil. Time does not go back.
func (w *windows) at(now Time) *Window {
	for w.next < len(w.list) && w.list[w.next].To <= now {
		w.next++
	}
	if w.next == len(w.list) || w.list[w.next].From > now {
		return nil
	}
	return &w.list[w.next]
}

// stretch returns the time of a step that starts now and would take took.
func (w *windows) stretch(now Time, took time.Duration) time.Duration {
	x := w.at(now)
	if x == nil || x.Pause || took < 0 {
		return took
	}
	ns := math.Round(float64(took) * x.Factor)
	if !(ns < math.MaxInt64) {
		return InvalidDuration
	}
	return time.Duration(ns)
}
