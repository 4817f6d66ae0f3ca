package provider

import "github.com/offshoot-sdk/offshoot/agent"

// MaxTokens is how many tokens of one kind a call can have used, at most. What a server says beyond
// that is a mistake: it is far more than any model takes in one call.
const MaxTokens = 1_000_000_000_000

// Usage returns what a server says that a call has used, where each number is one that can be: from
// 0 to [MaxTokens]. So a server can neither give a budget back nor let sums of it wrap around.
func Usage(said agent.Usage) agent.Usage {
	for _, n := range []*int64{&said.Input, &said.Output, &said.CacheRead, &said.CacheWrite} {
		*n = min(max(*n, 0), MaxTokens)
	}
	return said
}

// Uncached returns the Usage of a call whose server counts what was in its cache, and what it has
// written there, as a part of the input.
func Uncached(said agent.Usage) agent.Usage {
	said = Usage(said)
	said.Input = max(said.Input-said.CacheRead-said.CacheWrite, 0)
	return said
}
