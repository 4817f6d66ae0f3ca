// Package anthropictest is a fake of the service of Anthropic, for tests of what calls it: its
// Messages, streamed.
//
//	client ---> Handler ---> /v1/messages: strict, what is unknown or missing fails
//	              |
//	              v
//	       agenttest.Provider: what to answer, and what was asked
//
// The forms of requests, events and errors were compared with the provider's reference, recordings
// of its service and the types of its official client: SOURCES.md lists each, with its source and
// the date of that.
package anthropictest
