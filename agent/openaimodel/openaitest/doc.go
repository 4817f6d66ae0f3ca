// Package openaitest is a fake of the service of OpenAI, for tests of what calls it: its Responses
// and its Chat Completions, streamed.
//
//	client ---> Handler ---> /v1/chat/completions  strict: what is unknown or missing fails
//	              |    \---> /v1/responses
//	              v
//	       agenttest.Provider: what to answer, and what was asked
//
// The forms of requests, events and errors were compared with the provider's reference, recordings
// of its service and the types of its official client: SOURCES.md lists each, with its source and
// the date of that. The member reasoning_content is that of servers that speak like OpenAI and show
// what a model thinks.
package openaitest
