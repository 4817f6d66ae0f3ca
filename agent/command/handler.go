package command

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/internal/target"
	"github.com/offshoot-sdk/offshoot/internal/contain"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/binding"
)

// DefaultWait is how long a Handler waits for what takes time, unless [Options] say otherwise.
const DefaultWait = 30 * time.Second

// minPause is between two messages to one sub-agent.
const minPause = 2 * time.Second

// Options are what a [Handler] does in its own way. The zero Options are ready for use.
type Options struct {
	Syntax Syntax
	// Authorize says whether a person may give a command, which has been read and not been done. An
	// error means no: the person gets one sentence without the error, which [Denied] has. It is
	// asked before a mistake in the command is told; the Command of the Request is a [Help] then,
	// whose Unknown is the name that was typed. Nil: everyone may do everything. A panic means no,
	// too, and so does one that has not answered within Wait, which is left behind.
	Authorize func(ctx context.Context, r Request) error
	// Reach says whether a person may have a conversation speak to a session of another tree, for
	// [Focus]. An error, or what means no of Authorize, means no: the session looks like one that
	// does not exist. Nil: no one may.
	// The sub-agents of the session, and of the chat that a thread belongs to, need no Reach.
	Reach func(ctx context.Context, r Request, to session.Key) error
	// Wait is how long an answer waits for what takes time: the reply of a sub-agent, the end of
	// what is stopped, or of a turn before a new conversation. 0: [DefaultWait]. At most an hour.
	Wait time.Duration
}

// An OptionError is a field of [Options] that cannot be used, or a Runtime that is missing.
type OptionError struct {
	Field  string // such as "Options.Wait"
	Reason string
}

func (e *OptionError) Error() string { return "command: " + e.Field + ": " + e.Reason }

// A Handler does what commands ask of a Runtime. Its methods are safe for concurrent use. It starts
// nothing by itself.
type Handler struct {
	rt   *agent.Runtime
	opt  Options
	pace target.Pace // of what people send to sub-agents
	done memory      // of what is not on record by the ID of a message
}

// New returns the Handler of a Runtime. The error is an *[OptionError].
func New(rt *agent.Runtime, o Options) (*Handler, error) {
	switch {
	case rt == nil:
		return nil, &OptionError{"Runtime", "it is nil"}
	case o.Wait < 0 || o.Wait > time.Hour:
		return nil, &OptionError{"Options.Wait", fmt.Sprintf("%v is not from 0 to an hour", o.Wait)}
	case strings.ContainsAny(o.Syntax.Bot, " \t\n@/:"):
		return nil, &OptionError{
			"Options.Syntax.Bot", fmt.Sprintf("%q is not a name: it has spaces or signs", o.Syntax.Bot),
		}
	}
	for i, phrase := range o.Syntax.Phrases {
		if plainPhrase(phrase) == "" || len(phrase) > maxPhrase {
			return nil, &OptionError{
				fmt.Sprintf("Options.Syntax.Phrases[%d]", i), fmt.Sprintf("%q is not a phrase", phrase),
			}
		}
	}
	return &Handler{rt: rt, opt: o}, nil
}

// A Request is a command that a person gives.
type Request struct {
	// Session is the conversation's own session, as the transport posts to it.
	Session session.Key
	// Message is what the person has said: From whom it is, the Route that it came by, and its ID,
	// under which a repeated message starts and sends nothing twice. The Text is not read: an error
	// or a Helped repeats no word of the Command that is a part of a secret in it.
	Message agent.Incoming
	Command Command
}

// Handle answers what a person has said if that is a command. It returns false for everything else,
// which the transport then posts: key and m are the arguments that [agent.Runtime.Session] and
// [agent.Session.Post] get for it. Of a person who may not stop anything, a phrase such as "please
// stop" is a message.
//
// What cannot be done is an answer, too: a [Failed], whose Err is for the log, or a [Denied].
//
// Handle returns when the answer is known, which takes up to [Options].Wait. So a transport calls
// it in a goroutine of the conversation, and goes on hearing others.
func (h *Handler) Handle(
	ctx context.Context, key session.Key, m agent.Incoming,
) (a Answer, ok bool) {
	c, name, ok, err := h.opt.Syntax.parse(m.Text)
	if !ok {
		return nil, false
	}
	r := Request{Session: key, Message: m, Command: c}
	if err != nil {
		bad, _ := errors.AsType[*UsageError](err)
		r.Command = Help{Unknown: bad.Command}
		if no := h.authorize(ctx, r); no != nil {
			no = shown(no, h.masker(m.Text), h.rt.Shown)
			return Denied{Command: bad.Command, Err: no}, true
		}
		return Failed{Command: bad.Command, Err: shown(err, h.masker(m.Text), h.rt.Shown)}, true
	}
	a, err = h.doAs(ctx, r, name)
	if _, stopped := a.(Stopped); stopped || err == nil {
		return a, true
	}
	if denied, isDenied := errors.AsType[*DeniedError](err); isDenied {
		if stop, _ := c.(Stop); stop.Phrase {
			return nil, false
		}
		return Denied{Command: name, Err: denied.Err}, true
	}
	return Failed{Command: name, Err: err}, true
}

// ErrNotOwner is why [Owners] refuse a command.
var ErrNotOwner = errors.New("command: the person is not an owner of the bot")

// Owners returns an [Options].Authorize that lets those give commands who are owners of the bot, as
// Rules.Owners and Config.Owner of the Runtime say; see [agent.Session.IsOwner]. Another one
// refuses only some commands by calling it for these alone.
func Owners(rt *agent.Runtime) func(ctx context.Context, r Request) error {
	return func(ctx context.Context, r Request) error {
		owner, err := rt.Session(r.Session).IsOwner(ctx, r.Message)
		if err == nil && !owner {
			err = ErrNotOwner
		}
		return err
	}
}

// A DeniedError says that [Options].Authorize has refused a command.
type DeniedError struct {
	Command string
	Err     error // what Authorize returned
}

func (e *DeniedError) Error() string {
	return fmt.Sprintf("command: %s: the person may not give it: %v", e.Command, e.Err)
}

// Unwrap returns what Authorize returned.
func (e *DeniedError) Unwrap() error { return e.Err }

var errAuthorizeExited = errors.New("command: the function has ended its goroutine")

// errAuthorizeSlow is the cause of the end of the ctx of a function of the Options.
var errAuthorizeSlow = errors.New("command: the function has not answered in time")

// permit calls a function of the Options. One that does not return in time, or until ctx ends, is
// left behind, and its answer is no.
func (h *Handler) permit(ctx context.Context, f func(ctx context.Context) error) error {
	ctx, done := context.WithTimeoutCause(ctx, cmp.Or(h.opt.Wait, DefaultWait), errAuthorizeSlow)
	defer done() // and not when f returns: an end of ctx that is seen before the answer means no
	// left behind if the program does not return
	answer := contain.Go(func() error { return f(ctx) }, errAuthorizeExited,
		func(value any, _ []byte) error {
			return fmt.Errorf("command: the function has panicked: %v", value)
		})
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-answer: // it has returned because its ctx has ended, or just before
		return err
	default:
		return context.Cause(ctx)
	}
}

func (h *Handler) authorize(ctx context.Context, r Request) error {
	if h.opt.Authorize == nil {
		return nil
	}
	return h.permit(ctx, func(ctx context.Context) error { return h.opt.Authorize(ctx, r) })
}

// Do does what a command asks for, for a program that has read it in a way of its own, such as a
// button or a form. Where nothing was done, or not all of it, the error says why: a *[DeniedError],
// a *[TargetError], a *[UsageError] for a Command that Parse would not have made, an
// *[agent.InputError] for a Request that cannot be, such as one whose From.ID [agent.Session.Post]
// refuses, a *[binding.Error] for what another person has focused, an error that is
// [ErrNotFocused], [ErrUnknownPerson] or [ErrSlow], or that of the method of package agent that
// does it.
//
// What a person or a model has chosen is in the answers and in the errors as people may see it.
func (h *Handler) Do(ctx context.Context, r Request) (Answer, error) {
	name := ""
	if r.Command != nil {
		name = r.Command.Name()
	}
	return h.doAs(ctx, r, name)
}

// doAs is Do for a command that a person has typed under a name.
func (h *Handler) doAs(ctx context.Context, r Request, name string) (Answer, error) {
	a, err := h.do(ctx, r, name)
	help, helps := a.(Helped)
	if err == nil && !helps {
		return a, nil
	}
	mask := h.masker(r.Message.Text)
	if helps {
		a = Helped{Unknown: mask(help.Unknown)}
	}
	return a, shown(err, mask, h.rt.Shown)
}

// do does what a command asks for.
func (h *Handler) do(ctx context.Context, r Request, name string) (Answer, error) {
	if r.Command == nil {
		return nil, &agent.InputError{Field: "Request.Command", Reason: "it is nil"}
	}
	if !r.Session.IsValid() {
		return nil, &agent.InputError{
			Field: "Request.Session", Reason: "it is not the key of a session",
		}
	}
	if fault := text.IDFault(r.Message.From.ID); fault != "" {
		return nil, &agent.InputError{Field: "Request.Message.From.ID", Reason: fault}
	}
	if err := h.authorize(ctx, r); err != nil {
		err = shown(err, h.masker(r.Message.Text), h.rt.Shown)
		return nil, &DeniedError{Command: name, Err: err}
	}
	p, err := h.place(ctx, r)
	if err != nil {
		return nil, err
	}
	p.name = name
	id := ""
	switch r.Command.(type) {
	case Kill, Steer, Unfocus, Limit, Stop, Reset, Compact:
		id = p.id(fmt.Sprintf("%#v", r.Command))
	}
	return h.done.once(ctx, id, func() (Answer, error) { return p.answer(ctx) })
}

// answer does what the command of the place asks for.
func (p *place) answer(ctx context.Context) (Answer, error) {
	switch c := p.Command.(type) {
	case List:
		return p.list(ctx)
	case Kill:
		return p.kill(ctx, c)
	case Log:
		return p.log(ctx, c)
	case Info:
		return p.info(ctx, c)
	case Send:
		return p.send(ctx, c)
	case Steer:
		return p.steer(ctx, c)
	case Spawn:
		return p.spawn(ctx, c)
	case Focus:
		return p.focus(ctx, c)
	case Unfocus:
		return p.unfocus(ctx)
	case Agents:
		return p.agents(ctx)
	case Limit:
		return p.limit(ctx, c)
	case Stop:
		return p.stop(ctx)
	case Reset:
		return p.reset(ctx, c)
	case Compact:
		return p.compact(ctx)
	case Help:
		return Helped(c), nil
	}
	return nil, &UsageError{
		Command: p.name, Field: "Request.Command",
		Reason: fmt.Sprintf("a %T is not a command that Parse makes", p.Command),
	}
}

// A place is where a person gives a command: a conversation, and the session that it speaks to.
type place struct {
	*Handler
	Request
	name  string          // of the command, as the person has typed it
	at    session.Route   // complete, or the zero Route
	bound binding.Binding // of the conversation; zero: it has none
	here  *agent.Session  // what the conversation speaks to
}

func (h *Handler) place(ctx context.Context, r Request) (*place, error) {
	p := &place{Handler: h, Request: r, here: h.rt.Session(r.Session)}
	p.at = r.Message.Route.Clean()
	if p.at.IsZero() {
		p.at = r.Session.Route().Clean()
	}
	if !p.at.Complete() {
		p.at = session.Route{}
	}
	list, err := h.rt.Bindings(ctx)
	if err != nil {
		return nil, err
	}
	for _, b := range list {
		if b.Conversation == p.at {
			p.bound, p.here = b, h.rt.Session(b.Target)
		}
	}
	return p, nil
}

// errWaited is the cause of the end of a wait.
var errWaited = errors.New("command: the wait for an answer is over")

// patience returns a ctx that ends when the answer is not waited for any longer.
func (h *Handler) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, cmp.Or(h.opt.Wait, DefaultWait), errWaited)
}

// query is among what a target is looked for: all below the session, with numbers of the person.
func (p *place) query(many bool) agent.TargetQuery {
	return agent.TargetQuery{Viewer: p.viewer(), Tree: true, Many: many}
}

// viewer names the person for the lists that are remembered. An id is that of one person in one
// account of one channel: another channel may give it to another person.
func (p *place) viewer() string {
	at := p.Message.Route.Clean()
	return strings.Join([]string{
		"person", cmp.Or(at.Channel, p.Session.Channel()), cmp.Or(at.Account, p.Session.Account()),
		p.Message.From.ID,
	}, "\x00")
}

// runs returns the sub-agents below a session. A top-level one that is not on record has none.
func runs(ctx context.Context, of *agent.Session) ([]agent.RunInfo, error) {
	list, err := of.Tree(ctx)
	if errors.Is(err, agent.ErrNotFound) && !of.Key().IsSubagent() {
		return nil, nil
	}
	return list, err
}

// find returns the sub-agents of a session that a target names.
func (p *place) find(
	ctx context.Context, of *agent.Session, word string, many bool,
) ([]agent.RunInfo, error) {
	found, err := of.FindTarget(ctx, word, p.query(many))
	if bad, ok := errors.AsType[*agent.TargetError](err); ok {
		e := &TargetError{Command: p.name, Target: word, err: bad}
		for i := range bad.Candidates {
			row := p.row(&bad.Candidates[i])
			row.Number = bad.Numbers[i]
			e.Candidates = append(e.Candidates, row)
		}
		return nil, e
	}
	return found, err
}

// one returns the sub-agent of the session that a target names.
func (p *place) one(ctx context.Context, word string) (agent.RunInfo, Row, error) {
	found, err := p.find(ctx, p.here, word, false)
	if err != nil {
		return agent.RunInfo{}, Row{}, err
	}
	return found[0], p.row(&found[0]), nil
}

// child returns a handle on a run.
func (p *place) child(ctx context.Context, r *agent.RunInfo) (*agent.Child[string], error) {
	return agent.ChildOf[string](ctx, p.here, agent.Receipt{Session: r.Key, Run: r.ID})
}

// id names what is done for the message, so that a repeated one does it once. It is empty for a
// message without an ID. Messages of two conversations may share an ID.
func (p *place) id(what string) string {
	if p.Message.ID == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{
		what, p.Session.String(), p.at.Channel, p.at.Account, p.at.To, p.at.Thread, p.Message.ID,
	}, "\x00")))
	return "command-" + hex.EncodeToString(sum[:16])
}

// senders returns the person as one on whose behalf something is done.
func (p *place) senders(ctx context.Context) ([]policy.Sender, error) {
	return p.rt.Session(p.Session).SendersOf(ctx, p.Message)
}

// owner returns the person as the owner of a binding.
func (p *place) owner() (string, error) {
	switch id := p.Message.From.ID; id {
	case "", binding.SystemOwner:
		return "", ErrUnknownPerson
	default:
		return id, nil
	}
}
