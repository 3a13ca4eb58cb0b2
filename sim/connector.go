package sim

import "fmt"

// A Stepper driven by hand has no other replicas. Its caller says what they do:
// a request whose KV comes from elsewhere is Submitted, marked with SetRemote,
// pulled by the scheduler, and there with Received; one whose KV goes elsewhere
// is marked with Keep, and its blocks are free after Sent.

// SetRemote says that the KV of the leading positions of a waiting request, its
// prompt at most, is elsewhere: the scheduler sees it in View.Remote.
func (st *Stepper) SetRemote(id, positions int) {
	s := st.hub.live[id]
	if s == nil || s.state != Waiting || s.pulled || positions < 1 || positions > s.req.Prompt {
		panic(fmt.Sprintf("sim: Stepper.SetRemote(%d, %d) of a request that does not wait or is shorter", id, positions))
	}
	st.displace(s)
	st.load.PendingPrompt -= s.uncomputed()
	s.state, s.remote = Remote, positions
	st.load.PendingPrompt += s.uncomputed()
	st.place(s)
}

// Received ends the transfer to a request, also to one that was aborted
// meanwhile, whose blocks are free then. It returns false if there is none.
func (st *Stepper) Received(now Time, id int) bool {
	st.tick(now)
	if a := st.hub.written[id]; a != nil {
		delete(st.hub.written, id)
		a.free()
		return true
	}
	s := st.hub.live[id]
	if s == nil || s.state != Pulling {
		return false
	}
	st.received(s)
	return true
}

// Keep lets the blocks of a request in the replica outlive its completion,
// until Sent.
func (st *Stepper) Keep(id int) {
	s := st.hub.live[id]
	if s == nil {
		panic(fmt.Sprintf("sim: Stepper.Keep(%d) of a request that is not there", id))
	}
	s.keep = true
}

// Sent frees the blocks that a request kept. It returns false if there are
// none.
func (st *Stepper) Sent(now Time, id int) bool {
	st.tick(now)
	a := st.hub.kept[id]
	if a == nil {
		return false
	}
	delete(st.hub.kept, id)
	a.free()
	return true
}

// Held returns the blocks of a request that has ended: kept until Sent, or
// written until Received.
func (st *Stepper) Held(id int) (blocks int) {
	for _, a := range []*account{st.hub.kept[id], st.hub.written[id]} {
		if a != nil {
			blocks += a.blocks
		}
	}
	return blocks
}

// Remote returns the requests in line whose KV is elsewhere.
func (st *Stepper) Remote() List { return List{&st.remote.list} }

// Pulling returns the requests in line whose blocks a transfer fills.
func (st *Stepper) Pulling() List { return List{&st.pulling.list} }
