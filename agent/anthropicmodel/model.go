package anthropicmodel

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/provider"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// DefaultBaseURL is where Anthropic is.
const DefaultBaseURL = "https://api.anthropic.com"

// DefaultMaxTokens is how many tokens an answer has at most, unless a Config says otherwise.
const DefaultMaxTokens = 32000

// minBudget is the least budget for thoughts that the provider takes.
const minBudget = 1024

// A Config says where a Model is. The zero Config is one of Anthropic without a key.
type Config struct {
	// BaseURL is where the server is, up to what stands before "/v1/messages": an absolute http or
	// https address without a user, a query and a fragment. Empty: DefaultBaseURL. Nothing is read
	// from the environment.
	BaseURL string
	// Key returns the key for a call. It is called before each, so that a key may be renewed.
	// Nil: calls have no key. What it returns with an error fails the call. White space around
	// a key, such as the end of a line, is left out, and a line break in it is an error.
	Key func(ctx context.Context) (string, error)
	// HTTP makes the requests. Nil: http.DefaultClient. A Timeout of it ends an answer that takes
	// longer. Its CheckRedirect is not asked: a redirect fails the call, see [provider.OneRequest].
	// A call does not wait for one that ignores the end of its ctx, see [provider.Apart].
	HTTP *http.Client
	// Provider is what stands before the slash in the names of models. Empty: "anthropic".
	Provider string
	// Model is called for a session that has none. It is a name with or without the Provider.
	// Empty: such a call fails.
	Model string
	// MaxTokens is how many tokens an answer has at most. The provider wants to know. 0:
	// DefaultMaxTokens.
	MaxTokens int64
	// Budgets are how many tokens a thinking level may take, for models that want a number: from
	// 1024, in addition to the MaxTokens. A level that is not there does not think. Nil: the level
	// is an effort, and the model decides how long it thinks.
	Budgets map[string]int64
	// MaxBytes is how many bytes of an answer are read, with what stands around each of its pieces:
	// from 1. A call whose answer has more fails with a *[provider.SizeError], which is not worth
	// another try. 0: provider.DefaultMaxBytes.
	MaxBytes int64
	// Idle is how long the server may say nothing of its answer in the middle of a call before that
	// fails, which is worth another try. Empty pieces and signs of life say nothing. 0:
	// provider.DefaultIdle; negative: without a limit.
	Idle time.Duration
}

// A Model calls one provider. Its methods may be called from several goroutines at once.
type Model struct {
	cfg      Config
	messages anthropic.MessageService
}

var _ agent.StreamModel = (*Model)(nil)

// New returns a Model of a Config. It starts nothing and calls nothing. The error is a
// *[spawn.InputError] that names the field.
func New(cfg Config) (*Model, error) {
	cfg.BaseURL = cmp.Or(cfg.BaseURL, DefaultBaseURL)
	cfg.Provider = cmp.Or(cfg.Provider, "anthropic")
	cfg.MaxTokens = cmp.Or(cfg.MaxTokens, DefaultMaxTokens)
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg.HTTP = named(provider.Streamed(provider.ValidUTF8(provider.Bounded(
		provider.OneRequest(cfg.HTTP, "anthropicmodel"), "anthropicmodel", cfg.MaxBytes)),
		"anthropicmodel", say))
	return &Model{cfg: cfg, messages: anthropic.NewMessageService(
		option.WithBaseURL(cfg.BaseURL), option.WithHTTPClient(cfg.HTTP),
		option.WithMaxRetries(0), option.WithoutOpenTelemetry(),
	)}, nil
}

// validate returns what is wrong with a Config that has its defaults.
func (cfg *Config) validate() error {
	bad := func(field, reason string) error {
		return &spawn.InputError{Field: "anthropicmodel.Config." + field, Reason: reason}
	}
	err := provider.CheckBaseURL(cfg.BaseURL)
	switch {
	case err != nil:
		return bad("BaseURL", err.Error())
	case strings.Contains(cfg.Provider, "/"):
		return bad("Provider", fmt.Sprintf("%q has a slash", cfg.Provider))
	case cfg.MaxTokens < 0:
		return bad("MaxTokens", fmt.Sprintf("%d is negative", cfg.MaxTokens))
	case cfg.MaxBytes < 0:
		return bad("MaxBytes", fmt.Sprintf("%d is negative", cfg.MaxBytes))
	}
	if cfg.Model != "" {
		if _, err := provider.Name(cfg.Provider, "", cfg.Model); err != nil {
			return bad("Model", err.Error())
		}
	}
	for level, budget := range cfg.Budgets {
		field := fmt.Sprintf("Budgets[%q]", level)
		if known, ok := policy.ParseThinking(level); !ok || known != level {
			return bad(field, "it is not a thinking level")
		}
		if budget < minBudget {
			return bad(field, fmt.Sprintf("%d is less than %d", budget, minBudget))
		}
	}
	return nil
}

// Generate implements agent.Model.
func (m *Model) Generate(
	ctx context.Context, req *agent.ModelRequest,
) (resp *agent.ModelResponse, err error) {
	for chunk, failed := range m.Stream(ctx, req) {
		resp, err = chunk.Response, failed
	}
	return resp, err
}

// Stream implements agent.StreamModel. An error is a *[provider.Error] where the provider has
// answered with one.
func (m *Model) Stream(
	ctx context.Context, req *agent.ModelRequest,
) iter.Seq2[agent.ModelChunk, error] {
	return func(yield func(agent.ModelChunk, error) bool) {
		isStopped := false
		resp, err := m.call(ctx, req, func(text string) bool {
			isStopped = !yield(agent.ModelChunk{Text: text}, nil)
			return !isStopped
		})
		switch {
		case isStopped:
		case err != nil:
			yield(agent.ModelChunk{}, err)
		default:
			yield(agent.ModelChunk{Response: resp}, nil)
		}
	}
}

// errStopped says that the Loop wants no more of a stream.
var errStopped = errors.New("anthropicmodel: the stream was told to end")

// errEnded says that a stream has ended before its answer was complete.
var errEnded = fmt.Errorf("anthropicmodel: the answer is not complete: %w", io.ErrUnexpectedEOF)

// errLost says that a stream lacks an event that the one behind it needs.
var errLost = errors.New("anthropicmodel: a piece of a block has come that did not begin")

// call makes a call, and shows the text of the answer as it comes.
func (m *Model) call(
	ctx context.Context, req *agent.ModelRequest, show func(string) bool,
) (*agent.ModelResponse, error) {
	name, err := provider.Name(m.cfg.Provider, req.Model, m.cfg.Model)
	if err != nil {
		return nil, err
	}
	key := ""
	if m.cfg.Key != nil {
		given, err := provider.Apart(ctx, req, "anthropicmodel", nil, func(
			ctx context.Context, _ func(string) bool, _ func(string),
		) (string, error) {
			return m.cfg.Key(ctx)
		})
		if err == nil {
			key, err = provider.CheckKey(given)
		}
		if err != nil {
			err = fmt.Errorf("anthropicmodel: Config.Key: %w", err)
			return nil, provider.Masked(ctx, err, given)
		}
	}
	level, err := provider.Thinking(req.Thinking)
	if err != nil {
		return nil, err
	}
	defer func() {
		if value := recover(); value != nil { // of the HTTP of the program
			panic(provider.MaskedPanic(value, key))
		}
	}()
	ctx, watch := provider.Begin(ctx, "anthropicmodel", m.cfg.Idle)
	defer watch.End()
	of := naming{name, level, key}
	body, err := m.request(ctx, req, of)
	var resp *agent.ModelResponse
	if err == nil {
		resp, err = provider.Apart(ctx, req, "anthropicmodel", show, func(
			ctx context.Context, show func(string) bool, keep func(*agent.ModelResponse),
		) (*agent.ModelResponse, error) {
			return m.read(ctx, body, of, watch, show, keep)
		})
	}
	if err != nil {
		return nil, provider.Masked(ctx, errorOf(ctx, err), key)
	}
	return resp, nil
}

// A naming is what a call says of itself, in the words of the provider and of package policy.
type naming struct {
	model, level, key string
}

// read makes a call, reads the answer, and tells what it has heard of it.
func (m *Model) read(
	ctx context.Context, body anthropic.MessageNewParams, of naming, watch *provider.Watch,
	show func(string) bool, keep func(*agent.ModelResponse),
) (*agent.ModelResponse, error) {
	var options []option.RequestOption
	if of.key != "" {
		options = append(options, option.WithAPIKey(of.key))
	}
	stream := m.messages.NewStreaming(ctx, body, options...)
	defer func() { _ = stream.Close() }()
	answer := answer{model: of.model}
	for !answer.done && stream.Next() { // what is behind the last event, or is not, changes nothing
		before, wasComplete := answer.size, answer.isComplete()
		event := stream.Current()
		if event.Type == "error" { // under another name
			return nil, reported(event.RawJSON())
		}
		text := answer.add(event)
		if answer.size > before {
			watch.Heard()
		}
		if answer.isComplete() && !wasComplete {
			watch.Complete()
		}
		if text != "" && !show(text) {
			return nil, errStopped
		}
		if answer.isComplete() && (!wasComplete || answer.done) && !answer.lost { // twice at most
			if resp, err := answer.response(m.cfg.Provider, of.model); err == nil {
				keep(resp)
			}
		}
	}
	err := stream.Err()
	if _, isReported := errors.AsType[*anthropic.Error](err); !isReported && answer.isComplete() {
		err = nil // of the connection, behind the answer
	}
	switch {
	case err != nil:
	case answer.lost:
		err = agent.Retryable(errLost)
	case !answer.isComplete():
		err = agent.Retryable(errEnded)
	}
	if err != nil {
		return nil, err
	}
	return answer.response(m.cfg.Provider, of.model)
}

// classes are what the types of errors of the provider mean, whatever the status is.
var classes = map[string]provider.Class{
	"authentication_error": provider.ClassAccount,
	"permission_error":     provider.ClassAccount,
	"billing_error":        provider.ClassAccount,
	"not_found_error":      provider.ClassAccount, // of a model
	"rate_limit_error":     provider.ClassRate,
	"timeout_error":        provider.ClassRetryable,
	"overloaded_error":     provider.ClassRetryable,
	"api_error":            provider.ClassRetryable,
	"request_too_large":    provider.ClassTooLong,
}

// spent are the words with which the message of an error begins when a limit of the account, which
// its owner has set, is reached. They are all that tells it from a request that is odd.
var spent = []string{
	"You have reached your specified API usage limits",
	"You have reached your specified workspace API usage limits",
}

// isSpent reports whether an error of a type that stands for much else says that the account has
// used up what it may: another try comes to the same until its owner has done something.
func isSpent(code, message string) bool {
	return code == "enforced_spend_limit_reached" ||
		strings.Contains(message, "credit balance is too low") ||
		slices.ContainsFunc(spent, func(words string) bool {
			return strings.HasPrefix(message, words)
		})
}

// A fault is an error in the form of the provider.
type fault struct {
	Error struct {
		Type, Message string
		Details       struct {
			Code string `json:"error_code"`
		}
	}
}

// say takes the error of an answer that is not a stream, and returns the words in it.
func say(e *provider.Error, body []byte) (words string) {
	var said fault
	if json.Unmarshal(body, &said) != nil || said.Error.Type == "" {
		return ""
	}
	e.Code, e.Class = said.Error.Type, classes[said.Error.Type]
	if isSpent(said.Error.Details.Code, said.Error.Message) {
		e.Class = provider.ClassAccount
	}
	return said.Error.Message
}

// reported returns the error that the provider reports in the middle of an answer.
func reported(event string) *provider.Error {
	e := &provider.Error{Client: "anthropicmodel"}
	if e.Message = say(e, []byte(event)); e.Message == "" {
		e.Message = event
	}
	if e.Class == provider.ClassStatus && e.Code == "invalid_request_error" {
		e.Class = provider.ClassRefused
	}
	return e
}

// errorOf returns the error of a call as the Loop wants it.
func errorOf(ctx context.Context, err error) error {
	if said, ok := errors.AsType[*anthropic.Error](err); ok {
		return reported(said.RawJSON())
	}
	if said, ok := errors.AsType[*provider.Error](err); ok {
		return said // without what package http says, which has the address of a redirect
	}
	if input, ok := errors.AsType[*spawn.InputError](err); ok {
		return input // nothing was sent
	}
	_, hangs := errors.AsType[*provider.HangError](err)
	if hangs || errors.Is(err, errStopped) || agent.IsRetryable(err) {
		return err
	}
	return provider.Broken(ctx, "anthropicmodel", err)
}
