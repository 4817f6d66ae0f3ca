package anthropicmodel_test

import (
	"testing"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/provider/providertest"

	"github.com/offshoot-sdk/offshoot/agent/anthropicmodel"
)

// form is the client before the form of its provider.
var form = providertest.Form{
	Client: "anthropicmodel",
	New: func(cfg providertest.Config) (agent.StreamModel, error) {
		return anthropicmodel.New(anthropicmodel.Config{
			BaseURL: cfg.BaseURL, HTTP: cfg.HTTP, Key: cfg.Key, Idle: cfg.Idle,
			MaxBytes: cfg.MaxBytes,
		})
	},
	Model: "anthropic/m",
	Begin: sent("message_start", `"message":{"model":"m","usage":{"input_tokens":3}}`) +
		block("text", `,"text":""`) + delta("text_delta", "text", providertest.Text) +
		sent("content_block_stop", `"index":0`),
	Finish: sent("message_delta", `"delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":7}`),
	Rest:   sent("message_stop", `"x":1`),
	Fault:  sent("error", `"error":{"type":"overloaded_error","message":"Overloaded"}`),
	Floods: floods, Still: still,
	TwoCalls: `{"provider":"anthropic","blocks":[` +
		`{"type":"tool_use","id":"a","name":"now","input":{"n":1}},` +
		`{"type":"tool_use","id":"a","name":"now","input":{"n":2}}]}`,
}

func TestEnds(t *testing.T)      { providertest.TestEnds(t, form) }
func TestSilence(t *testing.T)   { providertest.TestSilence(t, form) }
func TestStillness(t *testing.T) { providertest.TestStillness(t, form) }
func TestFloods(t *testing.T)    { providertest.TestFloods(t, form) }
func TestLines(t *testing.T)     { providertest.TestLines(t, form) }
func TestHangs(t *testing.T)     { providertest.TestHangs(t, form) }
func TestHangsBehindTheEnd(t *testing.T) {
	providertest.TestHangsBehindTheEnd(t, form)
}
func TestFalls(t *testing.T)     { providertest.TestFalls(t, form) }
func TestLeft(t *testing.T)      { providertest.TestLeft(t, form) }
func TestKeys(t *testing.T)      { providertest.TestKeys(t, form) }
func TestAddresses(t *testing.T) { providertest.TestAddresses(t, form) }
func TestNames(t *testing.T)     { providertest.TestNames(t, form) }
func TestRedirects(t *testing.T) { providertest.TestRedirects(t, form) }
func TestSchemas(t *testing.T)   { providertest.TestSchemas(t, form) }
func TestIDs(t *testing.T)       { providertest.TestIDs(t, form) }
