package sim

import (
	"fmt"
	"time"
)

// RoleController moves replicas between roles while a run is under way.
type RoleController interface {
	// Control is called at time 0 and at each instant that it returned as next,
	// which must be later than now; [Never] means not again. A change closes the
	// replica: it takes nothing new, works off what it has, waits until what it
	// holds for transfers has left, and opens in its new role Config.SwitchCost
	// later. A change to the role that it has keeps it open, or lets it drain
	// and open as it was.
	Control(now Time, loads []Load) (changes []RoleChange, next Time)
}

// RoleChange asks for a role of a replica.
type RoleChange struct {
	Replica int
	Role    Role
}

// control asks the controller.
func (e *engine) control() {
	changes, next := e.cfg.Roles.Control(e.now, e.loads)
	for _, c := range changes {
		e.changeRole(c)
	}
	switch {
	case next <= e.now:
		e.fail(fmt.Errorf("sim: Roles asks for the next call at %v at %v", next, e.now))
	case next < Never:
		e.push(entry{at: next, kind: roleControl, replica: -1})
	}
}

// changeRole closes a replica for a new role.
func (e *engine) changeRole(c RoleChange) {
	if c.Replica < 0 || c.Replica >= len(e.replicas) || c.Role > RoleDecode {
		e.fail(fmt.Errorf("sim: at %v Roles asks for %v on replica %d of %d", e.now, uint8(c.Role), c.Replica, len(e.replicas)))
		return
	}
	st := &e.replicas[c.Replica]
	if st.load.Closed {
		st.next = c.Role // it drains already
		return
	}
	if st.cfg.Role == c.Role {
		return
	}
	st.load.Closed, st.next, st.closed = true, c.Role, e.now
	if prompts, decodes := e.open(); prompts == 0 || decodes == 0 {
		e.fail(fmt.Errorf("sim: at %v Roles closes replica %d, and of those open %d take prompts and %d decode", e.now, c.Replica, prompts, decodes))
		return
	}
	e.emit(&Event{Time: e.now, Kind: Drain, Replica: st.index, Reason: c.Role.String()})
	e.look(st)
}

// open counts the open replicas that take prompts and that decode.
func (e *engine) open() (prompts, decodes int) {
	for i := range e.replicas {
		if st := &e.replicas[i]; !st.load.Closed {
			prompts += one(st.cfg.Role != RoleDecode)
			decodes += one(st.cfg.Role != RolePrefill)
		}
	}
	return prompts, decodes
}

// drained reports whether a closed replica has nothing left to do.
func (st *Stepper) drained() bool {
	return st.load.Closed && !st.switching && st.flying == 0 && !st.needsPlan() && st.pulling.n == 0 && len(st.accounts) == 0
}

// switchRole lets a drained replica change.
func (e *engine) switchRole(st *Stepper) {
	st.switching = true
	e.push(entry{at: e.now.Add(e.cfg.SwitchCost), kind: roleOpen, replica: st.index})
}

// reopen opens a replica in its new role.
func (e *engine) reopen(st *Stepper) {
	st.cfg.Role, st.load.Role = st.next, st.next
	st.load.Closed, st.switching = false, false
	e.result.Switches++
	e.emit(&Event{Time: e.now, Kind: Open, Replica: st.index, Reason: st.next.String(), Took: e.now.Sub(st.closed)})
	e.look(st)
}

// over reports whether no request is alive and none will come, so that the
// controller has nothing more to do.
func (e *engine) over() bool {
	if e.feeding || len(e.live) > 0 || len(e.door) > 0 {
		return false
	}
	for i := range e.pending {
		if x := &e.pending[i]; x.kind == arrival && x.serial == 0 {
			return false
		}
	}
	return true
}

// validateController reports what a deployment with changing roles lacks.
func (c *Config) validateController() error {
	switch {
	case c.SwitchCost < 0 || c.SwitchCost > maxSwitchCost:
		return fmt.Errorf("sim: Config.SwitchCost is %v", c.SwitchCost)
	case c.Roles == nil:
		return nil
	case c.Router == nil || c.Handoff == nil || c.Link == nil:
		return fmt.Errorf("sim: Config.Roles needs Router, Handoff and Link")
	}
	return nil
}

// maxSwitchCost keeps sums of times far from the end of time.
const maxSwitchCost = 1000 * time.Hour
