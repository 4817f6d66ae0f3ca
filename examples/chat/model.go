package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
)

// parrot is a model without a network: it says what it was told, and what it sees.
type parrot struct {
	pause time.Duration // for each word
}

// Stream implements agent.StreamModel.
func (p parrot) Stream(
	ctx context.Context, req *agent.ModelRequest,
) iter.Seq2[agent.ModelChunk, error] {
	return func(yield func(agent.ModelChunk, error) bool) {
		text, err := answer(ctx, req)
		if err != nil {
			yield(agent.ModelChunk{}, err)
			return
		}
		for _, word := range strings.SplitAfter(text, " ") {
			select {
			case <-time.After(p.pause):
			case <-ctx.Done():
				yield(agent.ModelChunk{}, context.Cause(ctx))
				return
			}
			if !yield(agent.ModelChunk{Text: word}, nil) {
				return
			}
		}
		used := agent.Usage{Input: int64(10 * len(req.Messages)), Output: int64(len(text) / 4)}
		yield(agent.ModelChunk{Response: &agent.ModelResponse{Text: text, Usage: used}}, nil)
	}
}

// Generate implements agent.Model. Answers are streamed, so that it is asked for summaries alone.
func (p parrot) Generate(
	_ context.Context, req *agent.ModelRequest,
) (*agent.ModelResponse, error) {
	text := fmt.Sprintf("They talked about parrots, in %d letters.", len(req.Input()))
	return &agent.ModelResponse{Text: text}, nil
}

// answer says what the messages that are new say and show, and how long the conversation is.
func answer(ctx context.Context, req *agent.ModelRequest) (string, error) {
	var said []string
	if text := strings.TrimSpace(req.Input()); text != "" {
		said = append(said, fmt.Sprintf("You said %q.", text))
	}
	for _, m := range req.Messages[len(req.Messages)-req.New:] {
		for _, p := range m.Parts {
			size, err := sizeOf(ctx, req, p)
			if err != nil {
				return "", err
			}
			said = append(said,
				fmt.Sprintf("I see %s, %s of %d bytes.", p.Name, p.MediaType, size))
		}
	}
	return strings.Join(append(said,
		fmt.Sprintf("That makes %d messages.", len(req.Messages))), " "), nil
}

// sizeOf reads the bytes of a part, as a client of a real model would to send them.
func sizeOf(ctx context.Context, req *agent.ModelRequest, p session.Part) (int64, error) {
	r, err := req.OpenFile(ctx, p.File)
	if err != nil {
		return 0, err
	}
	size, err := io.Copy(io.Discard, r)
	return size, cmp.Or(err, r.Close())
}
