package main

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/anthropicmodel"
	"github.com/offshoot-sdk/offshoot/agent/mcp"
	"github.com/offshoot-sdk/offshoot/agent/openaimodel"
	"github.com/offshoot-sdk/offshoot/agent/otel"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// options are what the environment and the flags say.
type options struct {
	openai, anthropic       string // keys, of which one is set
	base, model, mcp, state string
	trace                   bool
}

// open opens the bot. The caller calls end when the Runtime has ended.
func (o options) open(
	ctx context.Context, reply func(context.Context, agent.Delivery) error, out *terminal,
) (rt *agent.Runtime, end func() error, err error) {
	var ends []func() error
	closeAll := func() (err error) {
		for _, f := range slices.Backward(ends) {
			err = errors.Join(err, f())
		}
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, closeAll())
		}
	}()
	agents := []policy.Agent{
		{ID: "main", Subagents: policy.Subagents{AllowAgents: []string{"researcher"}}},
		{ID: "researcher", Name: "Researcher: looks things up with tools"},
	}
	cfg := agent.Config{
		Workspace: agentctx.Templates(), // or os.DirFS("workspace")
		Rules:     policy.Rules{Agents: agents},
		Reply:     reply,
		Drain:     10 * time.Second, // for turns under way at the end
	}
	model, err := o.provider(&cfg.Models)
	if err != nil {
		return nil, nil, err
	}
	models := otel.NewModels()
	cfg.Runner = &agent.Loop{Model: models.Watch(model)}
	if o.state != "" {
		if cfg.Store, err = dirstore.Open(o.state); err != nil {
			return nil, nil, err
		}
		ends = append(ends, cfg.Store.Close)
	}
	if command := strings.Fields(o.mcp); len(command) > 0 {
		servers, err := mcp.Connect(ctx, mcp.Config{
			Servers: []mcp.Server{{Name: "tools", Command: command}},
		})
		if err != nil {
			return nil, nil, err
		}
		ends = append(ends, servers.Close)
		cfg.Tools = servers.Tools()
		// The agent main hands them on, and has no use for them itself.
		agents[0].Tools = policy.ToolPolicy{
			Deny: []string{"mcp__*"}, Delegable: &policy.ToolRules{},
		}
	}
	if rt, err = agent.Open(ctx, cfg); err != nil {
		return nil, nil, err
	}
	traced, err := o.export(context.WithoutCancel(ctx), rt, models, out)
	if err != nil {
		return nil, nil, err
	}
	ends = append(ends, traced)
	return rt, closeAll, nil
}

// provider returns the client of the provider whose key there is, and says in models which model it
// is and what agents log in with.
func (o options) provider(models *agent.Models) (model agent.Model, err error) {
	if (o.openai == "") == (o.anthropic == "") {
		return nil, errors.New("realbot: set either OPENAI_API_KEY or ANTHROPIC_API_KEY")
	}
	name, secret := "anthropic", agent.NewSecret(cmp.Or(o.openai, o.anthropic))
	key := func(ctx context.Context) (string, error) {
		login, err := agent.CredentialFor(ctx, name)
		return login.Secret.Reveal(), err
	}
	if o.openai != "" {
		name = "openai"
		c := openaimodel.Config{BaseURL: o.base, Key: key}
		if o.base != "" {
			c.API = openaimodel.APIChat
		}
		model, err = openaimodel.New(c)
		models.Model = "openai/" + cmp.Or(o.model, "gpt-5")
	} else {
		model, err = anthropicmodel.New(anthropicmodel.Config{BaseURL: o.base, Key: key})
		models.Model = "anthropic/" + cmp.Or(o.model, "claude-opus-5")
	}
	models.Credentials = func(context.Context, string) (agent.Profiles, error) {
		login := agent.Profile{Provider: name, Kind: "api_key", Secret: secret}
		return agent.Profiles{ByID: map[string]agent.Profile{name + ":default": login}}, nil
	}
	return model, err
}

// export has the Runtime traced to out if the options say so. The caller calls end when the Runtime
// has ended; ctx ends later.
func (o options) export(
	ctx context.Context, rt *agent.Runtime, models *otel.Models, out *terminal,
) (end func() error, err error) {
	if !o.trace {
		return func() error { return nil }, nil
	}
	spans, err := stdouttrace.New(stdouttrace.WithWriter(out))
	if err != nil {
		return nil, err
	}
	tracer := sdktrace.NewTracerProvider(
		sdktrace.WithIDGenerator(otel.IDs{}), sdktrace.WithBatcher(spans))
	c := otel.Config{Tracer: tracer, Models: models}
	if o.state != "" {
		c.State = otel.File(filepath.Join(o.state, "otel.json"))
	}
	x, err := otel.New(rt, c)
	if err != nil {
		return nil, errors.Join(err, tracer.Shutdown(ctx))
	}
	ended, watch := make(chan error, 1), x.Watch(ctx)
	go func() { ended <- watch() }()
	return func() error { return errors.Join(<-ended, tracer.Shutdown(ctx), out.flush()) }, nil
}

// chatKey is the conversation with the person at the terminal.
var chatKey = session.Must(session.DirectKey("main", "terminal", "me"))
