package kv

// WindowHit returns how many leading blocks of a sequence a sliding-window
// layer can reuse, given which of its blocks are cached: up to the last run of
// cached blocks that covers the window before the next token, or else the run
// at the very beginning. Blocks before that run need not be cached.
func WindowHit(cached []bool, window, blockTokens int) int {
	p := Pool{blockTokens: blockTokens}
	need := p.Blocks(window - 1)
	run := 0
	for i := len(cached) - 1; i >= 0; i-- {
		if !cached[i] {
			run = 0
			continue
		}
		if run++; run >= need {
			return i + run
		}
	}
	return run
}

// WindowReleased returns how many leading blocks have left the window of every
// later token once so many tokens are computed.
func WindowReleased(computed, window, blockTokens int) int {
	return max(0, computed-window+1) / blockTokens
}
