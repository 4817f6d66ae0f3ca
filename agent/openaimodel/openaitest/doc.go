// Package openaitest is a fake of the service of OpenAI, for tests of what calls it: its Responses
// and its Chat Completions, streamed.
//
//	client ---> Handler ---> /v1/chat/completions  strict: what is unknown or missing fails
//	              |    \---> /v1/responses
//	              v
//	       agenttest.Provider: what to answer, and what was asked
//
// The forms of requests, events and errors are those that the official client of version 3.99.0,
// github.com/openai/openai-go/v3, sends and reads. They were taken from its types and not compared
// with the provider's reference (https://platform.openai.com/docs/api-reference) or its service.
// The member reasoning_content is that of servers that speak like OpenAI and show what a model
// thinks.
package openaitest
