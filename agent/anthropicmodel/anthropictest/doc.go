// Package anthropictest is a fake of the service of Anthropic, for tests of what calls it: its
// Messages, streamed.
//
//	client ---> Handler ---> /v1/messages: strict, what is unknown or missing fails
//	              |
//	              v
//	       agenttest.Provider: what to answer, and what was asked
//
// The forms of requests, events and errors are those that the official client of version 1.84.0,
// github.com/anthropics/anthropic-sdk-go, sends and reads. They were taken from its types and not
// compared with the provider's reference (https://docs.anthropic.com/en/api) or its service.
package anthropictest
