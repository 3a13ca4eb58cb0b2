package trace

import (
	"strconv"

	"servesim/sim"
)

// FromEvent returns the record of a Finish event, for observers that write more
// than a [Writer] does.
//
// request_id is the engine's serial number, unique in a run. queue_enter is the
// instant at which the request was routed to a replica, so that the gateway
// phase holds a wait at the front door too. The instants of the client are
// those of the request's sim.Path; without one the client stands beside the
// engine. Behind a proxy that counts tokens first_token_client is Unknown in a
// run without sim.Config.TokenTimes.
func FromEvent(e sim.Event) Record {
	r := timeline(&e)
	r.RequestID = strconv.FormatInt(e.Serial, 10)
	return r
}

// EntryFromEvent is FromEvent with the details that the event holds: retrieval,
// prompt assembly and tail of the request's sim.Path, and the instants of every
// token at both ends in a run with sim.Config.TokenTimes.
func EntryFromEvent(e sim.Event) Entry {
	d := pathDetails(&e)
	if d.ServerTokens = e.TokenTimes(nil); d.ServerTokens != nil {
		d.ClientTokens = e.Path().Deliver(nil, d.ServerTokens)
	}
	return Entry{Record: FromEvent(e), Details: d}
}

// timeline is the record of a Finish event, without an id.
func timeline(e *sim.Event) Record {
	t := &e.Timeline
	r := Record{PromptTokens: e.Prompt, OutputTokens: e.Output,
		ClientSend: t.Arrival, GatewayArrival: t.Arrival, QueueEnter: t.Queued,
		PrefillStart: t.Admitted, PrefillEnd: t.PrefillEnd,
		FirstTokenServer: t.FirstToken, FirstTokenClient: t.FirstToken, LastTokenClient: e.Time}
	p := e.Path()
	if p == nil {
		return r
	}
	c := e.Client()
	r.ClientSend, r.GatewayArrival = c.Send, c.Send.Add(p.NetworkIn)
	r.FirstTokenClient, r.LastTokenClient = c.First, c.Last
	if c.First == sim.NoTime {
		r.FirstTokenClient = Unknown
	}
	return r
}

// pathDetails are the details of the client's side of a Finish event.
func pathDetails(e *sim.Event) (d Details) {
	if p := e.Path(); p != nil {
		d.Retrieval, d.Assembly, d.Tail = p.Retrieval, p.Assembly, p.Tail
	}
	return d
}
