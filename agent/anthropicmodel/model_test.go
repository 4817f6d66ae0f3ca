package anthropicmodel_test

import (
	"context"
	"net/http/httptest"
	"testing"

	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent/anthropicmodel"
	"github.com/offshoot-sdk/offshoot/agent/anthropicmodel/anthropictest"
)

// secret is the key of the tests.
const secret = "sk-ant-test-0123456789"

// keyed returns a key for each call.
func keyed(context.Context) (string, error) { return secret, nil }

// open returns a Model of a Config before a fake of the provider.
func open(t testing.TB, cfg anthropicmodel.Config) agenttest.ModelUnderTest {
	p := &agenttest.Provider{Key: secret}
	server := httptest.NewServer(anthropictest.Handler(p))
	cfg.BaseURL, cfg.Key, cfg.HTTP = server.URL, keyed, server.Client()
	m, err := anthropicmodel.New(cfg)
	require.NoError(t, err)
	return agenttest.ModelUnderTest{
		Model: m, Provider: p,
		Close: func() {
			server.CloseClientConnections()
			server.Close()
		},
	}
}

// promises are what the Model promises beyond the rules of every Model.
func promises() agenttest.ModelOptions {
	return agenttest.ModelOptions{
		Name: "anthropic/model-1", Stream: true, Thinking: true, Thoughts: true, Schema: true,
		Cache: true, CacheWrite: true, Pictures: true, ToolPictures: true,
	}
}

// The Model keeps every rule.
func TestMessages(t *testing.T) {
	agenttest.TestModel(t, func(t testing.TB) agenttest.ModelUnderTest {
		return open(t, anthropicmodel.Config{})
	}, promises())
}

// The Model keeps every rule if a level is a number of tokens.
func TestMessagesWithBudgets(t *testing.T) {
	agenttest.TestModel(t, func(t testing.TB) agenttest.ModelUnderTest {
		return open(t, anthropicmodel.Config{
			Budgets: map[string]int64{"low": 2048, "medium": 8192, "high": 30000},
		})
	}, promises())
}
