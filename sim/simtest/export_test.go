package simtest

import "servesim/sim"

// TokenTimes applies the laws about token times to instants that an engine
// would not give.
func TokenTimes(cfg sim.Config, e sim.Event, times ...sim.Time) error {
	l := &Laws{Config: cfg}
	l.tokenTimes(&e, &life{class: e.Class, timeline: e.Timeline}, times)
	return l.Err()
}

// TimeLedger applies the laws about ledgers to one that an engine would not give.
func TimeLedger(e sim.Event, t sim.Ledger) error {
	l := &Laws{}
	l.timeLedger(&e, t)
	return l.Err()
}
