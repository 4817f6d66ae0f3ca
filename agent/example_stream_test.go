package agent_test

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
)

// typist is a model client that shows its answer word by word.
type typist struct{}

func (typist) Stream(
	_ context.Context, req *agent.ModelRequest,
) iter.Seq2[agent.ModelChunk, error] {
	return func(yield func(agent.ModelChunk, error) bool) {
		answer := "You said " + req.Messages[len(req.Messages)-1].Text + "."
		for word := range strings.SplitAfterSeq(answer, " ") {
			if !yield(agent.ModelChunk{Text: word}, nil) {
				return
			}
		}
		yield(agent.ModelChunk{Response: &agent.ModelResponse{
			Usage: agent.Usage{Input: 10, Output: 3},
		}}, nil)
	}
}

// Generate is for callers other than a Loop.
func (m typist) Generate(
	ctx context.Context, req *agent.ModelRequest,
) (*agent.ModelResponse, error) {
	var whole strings.Builder
	for chunk, err := range m.Stream(ctx, req) {
		if err != nil {
			return nil, err
		}
		if whole.WriteString(chunk.Text); chunk.Response != nil {
			chunk.Response.Text = whole.String()
			return chunk.Response, nil
		}
	}
	return nil, agent.ErrNoResponse
}

// A model that streams: people who watch see each piece, and the reply is the whole.
func ExampleStreamModel() {
	ctx := context.Background()
	replies := make(chan agent.Delivery)
	rt, err := agent.Open(ctx, agent.Config{
		Runner: &agent.Loop{Model: typist{}},
		Reply: func(_ context.Context, d agent.Delivery) error {
			replies <- d
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ended := make(chan error, 1)
	go func() { ended <- rt.Run(ctx) }()
	chat := rt.Session(session.Must(session.DirectKey("main", "terminal", "me")))
	shown := make(chan string)
	events := chat.Events(ctx)
	go func() {
		var pieces []string
		for e := range events {
			switch e.Kind {
			case agent.EventDelta:
				pieces = append(pieces, e.Text)
			case agent.EventTurnEnded:
				shown <- strings.Join(pieces, "")
				return
			}
		}
	}()
	if _, err := chat.Post(ctx, agent.Incoming{Text: "hello"}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(<-shown)
	fmt.Println((<-replies).Reply.Text)
	fmt.Println(rt.Shutdown(ctx), <-ended)
	// Output:
	// You said hello.
	// You said hello.
	// <nil> <nil>
}
