// Package sim simulates LLM inference serving in virtual time: requests arrive,
// wait, have their prompts computed in chunks, decode token by token in a
// batch, and end. It is exact, deterministic, and fast enough that a day of
// traffic takes seconds.
//
//	requests ─► Admission ─► Router ─► queue (Order) ─► Scheduler ─► Plan
//	                                                                  │ checked
//	   ▲                                                              ▼
//	FollowUp ◄── Completion ◄── ends ◄── tokens ◄── step end ◄── step: CostModel
//	                                      │
//	                                      └── events ──► Observers
//
// [Run] drives a whole deployment, [Stepper] one replica by hand. The engine
// owns all state. Policies implement one small interface each: [Scheduler]
// fills a [Plan] from a [View], [CostModel] turns a [Batch] into a duration,
// [Router] and [Admission] decide about arrivals, [Order] sorts a queue,
// [RoleController] moves replicas between roles. None of them can see how many
// tokens a request will generate. What happened is
// told to each [Observer] as a stream of [Event] values; the packages
// sim/metrics and sim/trace are made of it.
//
// # Reading order
//
// request.go, batch.go, event.go and scheduler.go are the vocabulary, explain.go
// what a cost model may add to it; config.go is what can be set. plan.go is the
// surface that schedulers use, with reserve.go and arrange.go for those that need
// more. run.go is the loop over time and
// door.go how requests come in; stepper.go and replica.go are one replica, step.go
// begins a step and stepend.go ends it. cohort.go is why a decode step costs O(1),
// memory.go what KV blocks cost, swap.go host memory, draft.go speculation,
// flight.go several steps in flight, window.go slow times. link.go says what a
// disaggregated deployment is; handoff.go moves requests between its replicas,
// transfer.go their blocks, network.go the bytes. role.go changes roles, group.go
// lets replicas step together. ledger.go says where the time of a request goes,
// path.go what its client adds.
//
// # The rules of time
//
// Time is whole nanoseconds. Everything due at an instant happens in the order
// (step end, transfer, change of role, abort, arrival, wake-up; then replica; then
// creation), and then every idle replica that was touched plans once, in order of
// index. One whose blocks come free through the pass of another plans after those.
// A burst at time 0 is one queue.
//
// When a step is planned, its KV blocks are taken and its positions count as
// computed. When it ends, tokens are sampled, requests end and their blocks are
// free. A prompt's first token is sampled at the end of the step that computes
// its last chunk. Every later step in which a sequence decodes gives it one
// token. The KV of the last token is never stored: a request of P prompt and O
// output tokens occupies P + O - 1 positions at most.
//
// A replica of [RolePrefill] hands a request over when its prompt is complete. The
// blocks stay there until the other side, which takes blocks of its own first, has
// pulled them over the [Link]. Memory that is short on the decode side so stops
// the prefill side; nothing is dropped.
//
// In a window of [Config] a replica or a link is slower, or stands still. A preempted
// sequence loses its KV blocks, keeps its tokens, and computes
// prompt and tokens again; its first token keeps its time. A request ends after
// Output tokens, earlier if MaxOutput or MaxModelLen says so.
//
// # Speed
//
// Sequences that decode in lockstep form a cohort; a step of any number of them
// is a cost evaluation and a few additions, and allocates nothing. A scheduler
// keeps that by using [Plan.AddDecodes] in place of a loop, and [Plan.Hold] to
// let the engine repeat a step by itself. [Config.Check] runs without these
// shortcuts: the events are the same.
//
// # Determinism
//
// The same binary, configuration and requests give the same events, run after
// run, whatever GOMAXPROCS: the engine draws no random number, reads no clock,
// starts no goroutine, and no map iteration decides anything. Between
// processor families, cost models and workloads that pass through math.Exp, Log
// or Pow may differ in the last bit.
//
// # Words
//
// Step: one iteration of a replica. Position: one token computed by a step.
// Chunk: positions of one prompt in one step. Decode: a position whose sequence
// samples a token from it and has computed everything before. Gap: the time
// between two tokens of one request. Preempt: evict for recomputation, or to host
// memory. Pull: fetch KV from another replica. Pass: one call of a scheduler.
// Cohort: the sequences that decode in lockstep. Serial: the running number of a request, unique in a run.
package sim
