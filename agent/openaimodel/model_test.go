package openaimodel_test

import (
	"context"
	"net/http/httptest"
	"testing"

	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent/openaimodel"
	"github.com/offshoot-sdk/offshoot/agent/openaimodel/openaitest"
)

// secret is the key of the tests.
const secret = "sk-test-0123456789"

// keyed returns a key for each call.
func keyed(context.Context) (string, error) { return secret, nil }

// open returns a Model of a Config before a fake of the provider.
func open(t testing.TB, cfg openaimodel.Config) agenttest.ModelUnderTest {
	p := &agenttest.Provider{Key: secret}
	server := httptest.NewServer(openaitest.Handler(p))
	cfg.BaseURL, cfg.Key, cfg.HTTP = server.URL+"/v1", keyed, server.Client()
	m, err := openaimodel.New(cfg)
	require.NoError(t, err)
	return agenttest.ModelUnderTest{
		Model: m, Provider: p,
		Close: func() {
			server.CloseClientConnections()
			server.Close()
		},
	}
}

// The Model keeps every rule with Chat Completions.
func TestChat(t *testing.T) {
	agenttest.TestModel(t, func(t testing.TB) agenttest.ModelUnderTest {
		return open(t, openaimodel.Config{API: openaimodel.APIChat, Provider: "local"})
	}, agenttest.ModelOptions{
		Name: "local/model-1", Stream: true, Thinking: true, Thoughts: true, Schema: true,
		Cache: true, CacheWrite: true, Pictures: true, ToolPictures: true, Internal: true,
	})
}

// The Model keeps every rule with Responses.
func TestResponses(t *testing.T) {
	agenttest.TestModel(t, func(t testing.TB) agenttest.ModelUnderTest {
		return open(t, openaimodel.Config{})
	}, agenttest.ModelOptions{
		Name: "openai/model-1", Stream: true, Thinking: true, Thoughts: true, Schema: true,
		Cache: true, CacheWrite: true, Pictures: true, ToolPictures: true,
	})
}
