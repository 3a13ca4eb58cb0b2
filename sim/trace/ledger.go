package trace

import (
	"time"

	"servesim/sim"
)

// ledgerNames name the parts of a sim.Ledger in exports, in its order.
var ledgerNames = [...]string{"queue_door", "queue_step", "queue_slots", "queue_tokens", "queue_memory", "queue_order", "queue_policy",
	"prefill_compute", "prefill_paused", "transfer_room", "transfer_wire", "transfer_contention",
	"first_decode_queue", "first_decode_compute", "first_decode_stalled",
	"stream_decode", "stream_interference", "stream_stalled", "stream_preempted"}

func ledgerParts(l *sim.Ledger) [len(ledgerNames)]*time.Duration {
	return [...]*time.Duration{&l.Queue.Door, &l.Queue.Step, &l.Queue.Slots, &l.Queue.Tokens, &l.Queue.Memory, &l.Queue.Order, &l.Queue.Policy,
		&l.Prefill.Compute, &l.Prefill.Paused, &l.Transfer.Room, &l.Transfer.Wire, &l.Transfer.Contention,
		&l.FirstDecode.Queue, &l.FirstDecode.Compute, &l.FirstDecode.Stalled,
		&l.Stream.Decode, &l.Stream.Interference, &l.Stream.Stalled, &l.Stream.Preempted}
}
