// Package anthropictest is a fake of the service of Anthropic, for tests of what calls it: its
// Messages, streamed.
//
//	client ---> Handler ---> /v1/messages: strict, what is unknown or missing fails
//	              |
//	              v
//	       agenttest.Provider: what to answer, and what was asked
//
// The forms of requests, events and errors are those of the provider's API reference
// (https://docs.anthropic.com/en/api, "Messages", "Streaming Messages" and "Errors", and the guides
// on thinking and on prompt caching), as the official client of version 1.84.0 has them; read on
// 2026-11-27.
package anthropictest
