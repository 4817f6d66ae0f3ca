package anthropicmodel_test

import (
	"testing"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/internal/modeltest"

	"github.com/offshoot-sdk/offshoot/agent/anthropicmodel"
)

// form is the client before the form of its provider.
var form = modeltest.Form{
	Client: "anthropicmodel",
	New: func(cfg modeltest.Config) (agent.StreamModel, error) {
		return anthropicmodel.New(anthropicmodel.Config{
			BaseURL: cfg.BaseURL, HTTP: cfg.HTTP, Key: cfg.Key, Idle: cfg.Idle, MaxBytes: cfg.MaxBytes,
		})
	},
	Model: "anthropic/m",
	Begin: sent("message_start", `"message":{"model":"m","usage":{"input_tokens":3}}`) +
		block("text", `,"text":""`) + delta("text_delta", "text", modeltest.Text) +
		sent("content_block_stop", `"index":0`),
	Finish: sent("message_delta", `"delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":7}`),
	Rest:   sent("message_stop", `"x":1`),
	Fault:  sent("error", `"error":{"type":"overloaded_error","message":"Overloaded"}`),
	Floods: floods, Still: still,
	TwoCalls: `{"provider":"anthropic","blocks":[` +
		`{"type":"tool_use","id":"a","name":"now","input":{"n":1}},` +
		`{"type":"tool_use","id":"a","name":"now","input":{"n":2}}]}`,
}

func TestEnds(t *testing.T)      { modeltest.TestEnds(t, form) }
func TestSilence(t *testing.T)   { modeltest.TestSilence(t, form) }
func TestStillness(t *testing.T) { modeltest.TestStillness(t, form) }
func TestFloods(t *testing.T)    { modeltest.TestFloods(t, form) }
func TestLines(t *testing.T)     { modeltest.TestLines(t, form) }
func TestHangs(t *testing.T)     { modeltest.TestHangs(t, form) }
func TestFalls(t *testing.T)     { modeltest.TestFalls(t, form) }
func TestLeft(t *testing.T)      { modeltest.TestLeft(t, form) }
func TestKeys(t *testing.T)      { modeltest.TestKeys(t, form) }
func TestAddresses(t *testing.T) { modeltest.TestAddresses(t, form) }
func TestNames(t *testing.T)     { modeltest.TestNames(t, form) }
func TestRedirects(t *testing.T) { modeltest.TestRedirects(t, form) }
func TestSchemas(t *testing.T)   { modeltest.TestSchemas(t, form) }
func TestIDs(t *testing.T)       { modeltest.TestIDs(t, form) }
