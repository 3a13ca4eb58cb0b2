package metrics

// Definitions states what the figures of a report mean. Every text report
// ends with it, and with those of the following that it needs.
const Definitions = `start       intended arrival of the request
TTFT        first token - start
ITL         every gap between two tokens of a request, pooled per token
TPOT        (last token - first token) / (tokens - 1); a request with one
            token has none
E2E         last token - start
throughput  completed work / (last completion - first arrival)
goodput     completed requests that met every stated target of their class,
            over the same time
attainment  the same requests / all arrivals; rejected, aborted and
            unfinished ones count as missed
–           undefined or not measured
*           too few observations lie beyond the percentile to trust it
`

// RetryDefinitions completes Definitions where clients try again.
const RetryDefinitions = `attempts    first attempts and retries; rejected and aborted ones are counted
            here, arrivals and completions by request
retry       belongs to the request: its start is that of the first attempt
failed      requests of which no attempt completed or is under way
`

// DeferralDefinitions completes Definitions where requests are deferred.
const DeferralDefinitions = `deferred    attempts that admission made wait at the front door, from their
            arrival until they are in a queue, or end; if it is over
`

// ClientDefinitions completes Definitions where clients are measured.
const ClientDefinitions = `client      start is the send of the request, as long before its arrival as its
            path takes; tokens count when they reach the client; what the
            client does behind the last one is left out
`
