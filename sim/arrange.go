package sim

import "fmt"

// Arrange puts the running sequences into that order, which holds each of them
// once. Views, later loops and the order in which they are preempted follow it;
// a loop over Running that is under way ends.
func (p *Plan) Arrange(order []*Sequence) {
	p.check()
	st := p.st
	if len(order) != st.running.n {
		panic(fmt.Sprintf("sim: Plan.Arrange of %d sequences, %d run", len(order), st.running.n))
	}
	for _, s := range order {
		if !st.running.contains(s) {
			panic(fmt.Sprintf("sim: Plan.Arrange of sequence %d, which does not run or is there twice", s.serial))
		}
		st.running.remove(s)
	}
	for _, s := range order {
		st.run(s)
	}
}

// Requeue moves sequences in line to its front, in that order, or to their
// places if the replica has an Order.
func (p *Plan) Requeue(order ...*Sequence) {
	p.check()
	for i := len(order) - 1; i >= 0; i-- {
		s := order[i]
		if s.home != p.st || s.state == Running || s.state == Swapped || s.state == Ended {
			panic(fmt.Sprintf("sim: Plan.Requeue of sequence %d, which is %v", s.serial, s.state))
		}
		p.st.displace(s)
		p.st.giveTurn(s, true)
		p.st.place(s)
	}
}
