package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
)

// A real program has a model client in the place of this file.

func dialModel() agent.Model { return fakeModel{step: 50 * time.Millisecond} }

// topics returns what is to be researched.
func topics() []string {
	return []string{
		"tides", "winds", "maps", "ports", "ships", "crews", "cargo", "straits", "storms", "stars",
	}
}

// fakeModel answers the sooner the shorter the topic is, and not within the hour about the three
// topics that begin with "st". So seven of the ten answer in time, always the same ones.
type fakeModel struct{ step time.Duration }

// Generate implements agent.Model.
func (m fakeModel) Generate(
	ctx context.Context, req *agent.ModelRequest,
) (*agent.ModelResponse, error) {
	_, topic, _ := strings.Cut(req.Messages[0].Text, "Research: ")
	takes := time.Duration(len(topic)) * m.step
	if strings.HasPrefix(topic, "st") {
		takes = time.Hour
	}
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	claim := fmt.Sprintf("There is much to say about %s.", topic)
	text := fmt.Sprintf(`{"claim":%q,"confidence":0.8,"sources":[]}`, claim)
	return &agent.ModelResponse{Text: text}, nil
}
