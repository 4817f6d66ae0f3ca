package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
)

// What a real program has in the place of this file is a model client.

func dialModel() agent.Model { return fakeModel{step: 50 * time.Millisecond} }

func topics() []string {
	return []string{
		"tides", "winds", "maps", "ports", "ships", "crews", "cargo", "straits", "storms", "stars",
	}
}

// fakeModel answers the sooner the shorter the topic is, and not within the hour about the three
// topics that begin with "st". So seven of the ten answer in time, always the same ones.
type fakeModel struct{ step time.Duration }

// Generate implements agent.Model.
func (m fakeModel) Generate(ctx context.Context, req *agent.ModelRequest) (*agent.ModelResponse, error) {
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
	return &agent.ModelResponse{Text: fmt.Sprintf(`{"claim":"There is much to say about %s.","confidence":0.8,"sources":[]}`, topic)}, nil
}
