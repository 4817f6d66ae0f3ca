package spawn

import "encoding/json"

// A Result is what a turn or a run produced. The zero Result is an empty one.
type Result struct {
	// Text is the final answer, byte for byte as the Runner returned it.
	Text string `json:"text,omitempty"`
	// JSON is a typed result, where one was asked for.
	JSON json.RawMessage `json:"json,omitempty"`
	// Files are artifacts, by reference.
	Files []File `json:"files,omitempty"`
	// Usage is what was consumed: of one turn in a Runner's Result, of all turns in a run's.
	Usage Usage `json:"usage,omitzero"`
	// Model is the one that really ran; empty if the Runner did not say.
	Model string `json:"model,omitempty"`
}

// A File is something that a run made.
type File struct {
	Name      string `json:"name"`
	Path      string `json:"path,omitempty"`
	MediaType string `json:"mediaType,omitempty"`
}

// Usage is what was consumed. The zero Usage is nothing.
type Usage struct {
	Input  int64   `json:"input,omitempty"`  // tokens
	Output int64   `json:"output,omitempty"` // tokens
	Cost   float64 `json:"cost,omitempty"`   // US dollars
}

// Add returns the sum of u and v.
func (u Usage) Add(v Usage) Usage {
	return Usage{Input: u.Input + v.Input, Output: u.Output + v.Output, Cost: u.Cost + v.Cost}
}

// Tokens returns input and output together.
func (u Usage) Tokens() int64 { return u.Input + u.Output }
