// Package anthropicmodel is an [agent.Model] that calls a model of Anthropic, with the official
// client github.com/anthropics/anthropic-sdk-go.
//
//	agent.Loop ---> Model ---> client ---> /v1/messages
//	                  |
//	                  +-- prompt [cached] [cached], messages [cached]
//	                  +-- text, calls, thoughts with their signatures, usage
//	                  +-- errors as the Loop wants them
//
// It is a module of its own, so that a bot that calls another provider does not build the client:
//
//	go get github.com/offshoot-sdk/offshoot/agent/anthropicmodel
//
// [New] makes one of a [Config]:
//
//	model, err := anthropicmodel.New(anthropicmodel.Config{Key: key})
//	cfg.Runner = &agent.Loop{Model: model}
//	cfg.Models.Model = "anthropic/claude-opus-5"
//
// The provider is asked to cache the stable prefix of the prompt, the part of it that a session
// keeps, and the conversation so far, so that a turn pays for what is new. What the model thought
// comes back to it with its signature, as long as the transcript is kept.
//
// Answers are streamed. The client makes each call once: that a call is made again is for the Loop,
// which knows budgets and pauses. Package anthropictest has a fake of the provider.
package anthropicmodel
