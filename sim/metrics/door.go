package metrics

import (
	"math"

	"servesim/sim"
)

// door counts the requests that sim.Config.Admission made wait at the front
// door: those that were there for longer than an instant, or still are.
type door struct {
	here, herePrompt int64 // requests at the door, and their prompt tokens
	left, leftPrompt int64 // requests that waited and have left, likewise
	wait             area  // ns, of those that have left
	longest          int64 // ns, likewise
}

func (d *door) arrive(e *sim.Event) {
	d.here++
	d.herePrompt += promptOf(e)
}

// leave takes off a request that leaves the door at e.Time.
func (d *door) leave(e *sim.Event) {
	d.here--
	d.herePrompt -= promptOf(e)
	if wait := int64(e.Time - e.Timeline.Arrival); wait > 0 {
		d.left++
		d.leftPrompt += promptOf(e)
		d.wait.add(1, wait)
		d.longest = max(d.longest, wait)
	}
}

func (d *door) add(o door) {
	d.here += o.here
	d.herePrompt += o.herePrompt
	d.left += o.left
	d.leftPrompt += o.leftPrompt
	d.wait.join(o.wait)
	d.longest = max(d.longest, o.longest)
}

// deferrals describes what stood at the door.
func (d *door) deferrals() Deferrals {
	r := Deferrals{Deferred: d.left + d.here, DeferredPrompt: d.leftPrompt + d.herePrompt, StillDeferred: d.here,
		DeferredMean: over(d.wait.float()/1e6, float64(d.left)), DeferredMax: Number(math.NaN())}
	if d.left > 0 {
		r.DeferredMax = Number(float64(d.longest) / 1e6)
	}
	return r
}
