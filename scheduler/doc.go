// Package scheduler holds policies for the engine in package sim: schedulers,
// deployments, admission, routers and orders.
//
//	             prompts                beside decodes   memory
//	RequestBatch whole, batch by batch  never            reserved for the longest output
//	Continuous   whole, first           never            as needed, or reserved (Orca)
//	ChunkedPrefill in chunks            always           prompt at admission, then as needed
//
// The schedulers of published engines, decision for decision:
//
//	VLLM1        in chunks              always           as needed
//	VLLM0        whole, first           never            as needed
//	VLLM0Chunked in chunks              always           prompt at admission, then as needed
//	Sarathi      in chunks              always           prompt at admission, then as needed
//	Alternating  in chunks              never, in turns  prompt at admission, then as needed
//	Orca         whole                  always           reserved for the longest output
//
// And one for replicas with sim.Replica.Drafts:
//
//	VariableDrafts in chunks            always           as needed; checks as many drafts as pay
//
// Deployments fill a sim.Config with replicas and what routes between them:
//
//	Colocated      each replica computes prompts and decodes
//	Disaggregated  prefill pool ══ KV over a link ══► decode pool, by Pull
//	Dynamic        the same, and LoadThreshold or WorkRatio moves replicas
//
//	arrivals ─► QueueLimit · Deadline · TokenBucket (All)
//	         ─► RoundRobin · LeastLoaded · LeastPending · TwoChoices · PrefixAffinity · PrefixHash
//	            within PrefillPool · DecodePool · Conditional · Subset · ByClass · Stale
//	         ─► queue: ByArrival · ByPriority · ByPrompt · ByHint · ByDeadline
//
// Read chunked.go first, then continuous.go and requestbatch.go; decode.go has
// what they share. variabledrafts.go is about speculative decoding. Of the engines
// read vllm1.go, then vllm0.go, sarathi.go and
// vllm0chunked.go; watermark.go has their admission test. admission.go with
// tokenbucket.go, router.go with leastpending.go, stale.go and byclass.go, and
// order.go stand by themselves. deployment.go with pull.go is about replicas with
// roles, roles.go and workratio.go about those that change them. pool.go and
// conditional.go route
// between replicas with roles, prefixaffinity.go and prefixhash.go by what prompts
// begin with.
//
// VLLM0, VLLM0Chunked, Sarathi and Alternating belong to engines that want a free
// block for every decode: give their replicas [sim.TouchedGrowth]. A prompt with
// one position left counts as a decode in all of them.
//
// Schedulers make no decision from the true output length, which they cannot
// see. Where memory runs out, the youngest running sequence is preempted, unless
// a policy says otherwise. The head of the queue is not overtaken: a request that
// does not fit blocks those behind it, so that none starves. Only VLLM0Chunked
// with PartialPrefills, and VLLM1 with Overtake, let short prompts pass long ones.
//
// Words this package owns. Pool: the open replicas that take prompts, or that
// decode. Watermark: the fraction of the KV blocks that an admission must leave
// free. Slot, of VLLM0Chunked: the part of the token budget
// that one prompt may use. Turn: a step of Alternating.
package scheduler
