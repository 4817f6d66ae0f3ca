// Package openaimodel is an [agent.Model] that calls a model of OpenAI, or of a server that speaks
// like it, with the official client github.com/openai/openai-go.
//
//	agent.Loop ---> Model ---> client ---> /responses         OpenAI
//	                  |            \-----> /chat/completions  and servers like it
//	                  |
//	                  +-- text, calls, thoughts, usage; errors as the Loop wants them
//
// It is a module of its own, so that a bot that calls another provider does not build the client:
//
//	go get github.com/offshoot-sdk/offshoot/agent/openaimodel
//
// [New] makes one of a [Config]. The zero Config is for OpenAI and its Responses; APIChat and a
// BaseURL are for other servers:
//
//	model, err := openaimodel.New(openaimodel.Config{
//		BaseURL: "http://localhost:11434/v1", Provider: "ollama", API: openaimodel.APIChat,
//	})
//	cfg.Runner = &agent.Loop{Model: model}
//	cfg.Models.Model = "ollama/qwen3"
//
// Answers are streamed. The client makes each call once: that a call is made again is for the Loop,
// which knows budgets and pauses. Package openaitest has a fake of the provider.
package openaimodel
