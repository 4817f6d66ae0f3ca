package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/offshoot-sdk/offshoot/agent/internal/sender"
	"github.com/offshoot-sdk/offshoot/announce"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/internal/secret"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// An Incoming is what a person sends: an ID, a Text, Parts such as pictures, From whom it is, the
// Route that it came by, Meta of the program's own, and At when it was said. Only a Text or a Part
// is required. See [spawn.Incoming].
type Incoming = spawn.Incoming

// A Receipt says what became of a message: which run takes it, and whether it was known. See
// [spawn.Receipt].
type Receipt = spawn.Receipt

// Post puts a message into the inbox and returns when that is durable. A session that is not in a
// turn starts one; the answer comes to Config.Reply. A message whose ID the session has seen in the
// last seven days is accepted and changes nothing, and the Receipt says so; one without an ID is
// always new.
//
// A message to a sub-agent is a follow-up: the run that is under way reads it. If that has ended,
// the message begins another run of the session, under its transcript, its authority, and what is
// left of its budget, if the rules of this moment admit it as they admit a spawn. No session is
// told of the end of that run: the program waits for it, see [ChildOf] and [Child.Post].
//
// The Runner finds the message at the end of Turn.Messages, with its From and Parts, and At as its
// Time. The bytes of its Parts are in the Files of the Config's Store; see [Turn.OpenFile]. A part
// whose bytes are not what its MediaType or Kind says has those of the bytes, and that is logged.
// In a group or a channel, and to a sub-agent, the text of [Turn.Messages] begins with a line that
// says who speaks, if From says so; the transcript has the Text as it was posted.
//
// The Route of a message overrides what the key of the session says, and what it lacks is filled in
// from there, and then from the message before, as [session.Route.Or] does: never from another
// channel, nor from one with another account where both name one, and a thread only together with
// its recipient. A Route that names no account so has that of the message before: where a session
// is written to through several accounts of one channel, name it in each. A message without a Route
// is answered where the one before was, the first one where the key says, and none
// in a conversation that is bound to the session. A session whose key names no chat, such as a main
// session, so answers to where the last message came from. Meta comes back with the reply, see
// [Reply].
//
// The error is an *[InputError] for a Text that is blank without Parts, an ID, From.ID or Meta that
// is not UTF-8, a From.ID that could pass for another, since it has characters that are not drawn
// or spaces at an end, an At before 1678 or after 2262, or a key that is not that of a session; a
// *[LimitError] for what is too long or too much; a *[session.PartError] for a part that cannot be
// kept, or whose File the Store does not have; [session.ErrNoFiles] for a part with bytes if the
// Store has no Files, or the error of these Files beside [ErrNotRecorded]; a [*policy.Refusal] for
// an agent that is not among those of Config.Rules, or if a rule refuses another run; [ErrNotFound]
// for a sub-agent that is not on record; [ErrArchived], which is ErrNotFound too, for one that was
// archived; [spawn.ErrStopping] for one that is to end, or below one that is; a
// *[spawn.EndedError], which is [ErrEnded], for one that has ended below another that has, and
// ErrEnded for one whose first turn never started; or one that every command can return. After
// [ErrUnconfirmed] post the message again with the same ID: then it is told once. After
// [ErrNotRecorded] it may be posted as it is. After any other error it is not recorded.
func (s *Session) Post(ctx context.Context, m Incoming) (Receipt, error) {
	wrong := s.rt.wrongPost(m)
	root, err := s.receiveFrom(ctx, &m)
	if err != nil {
		return Receipt{}, orWrong(err, wrong)
	}
	var receipt Receipt
	err = s.rt.bindings.post(ctx, s, root, m, false,
		func(ctx context.Context, root, to session.Key, m Incoming) (err error) {
			receipt, err = s.rt.sup.Post(ctx, root, to, m)
			return err
		})
	return receipt, orWrong(s.rt.commandOrArchived(ctx, s.key, inOurWords(err)), wrong)
}

// PostAndWait posts a message, as [Session.Post] does, and returns the reply with which a turn ends
// that answers it. It works with and without Config.Reply, which gets every reply as well. A turn
// that failed gives a Reply with Failed, an apology if it has nothing else to say. What a turn says
// before its end, with [Turn.Say], is returned only if nothing follows: then it is the last such
// text, and Reply.Interim is set.
//
// A message over which a turn says nothing may be answered by a later one that no message starts,
// such as the turn over the end of a sub-agent. If none is to come, and nothing was said before
// either, the error is [ErrSilent]. It is [ErrTurnCancelled] or [ErrStopped] if CancelTurn or Stop
// ends the turn, or does not let it begin.
//
// Another message of the same place that comes before that later turn is answered together with
// this one: its reply is returned, and its InReplyTo has both. What is answered elsewhere is not.
//
// With a known ID PostAndWait waits as well, as long as the message is unread, its turn is under
// way, or a later turn is to answer it. If the reply has not been delivered yet, it returns that.
// Else the error is [ErrAnswered]. What was said and delivered before such a call is known only
// until its turn has ended: after that the error may be [ErrSilent].
//
// It waits for Runtime.Run, for a slot, and for a store that fails. Called by a Runner, under the
// context of its turn and for another session, it gives the slot of the turn back meanwhile.
//
// The error is [ErrNoConversation] for a sub-agent, whose answers go to its requester, unless m
// comes from a conversation that is bound to it; an *[InputError] for the session of the turn that
// calls it; or one of Post. It is [ErrUnconfirmed] beside the cause of ctx or [ErrShutdown] if that
// ends the wait, and if another process takes the tree over. The message may have been recorded
// then, and is answered all the same. It is ErrAnswered, of a message without an ID too, if the
// process that had the tree has answered people, and was gone before it could tell this one.
func (s *Session) PostAndWait(ctx context.Context, m Incoming) (Reply, error) {
	wrong := s.rt.wrongPost(m)
	root, err := s.receiveFrom(ctx, &m)
	if err != nil {
		return Reply{}, orWrong(err, wrong)
	}
	var reply Reply
	err = s.rt.bindings.post(ctx, s, root, m, true,
		func(ctx context.Context, root, to session.Key, m Incoming) (err error) {
			reply, err = s.rt.sup.PostAndWait(ctx, root, to, m)
			return err
		})
	if err != nil {
		return Reply{}, orWrong(s.rt.commandOrArchived(ctx, s.key, inOurWords(err)), wrong)
	}
	return s.rt.shownReply(reply), nil
}

// SetRoute sets where the answers of a top-level session go from now on, until a message with a
// route of its own comes. It is for sessions that the caller runs, which get no messages. What it
// lacks is filled in from the key of the session. A zero Route sets what the key says, or none. It
// returns when that is durable, and the route survives a restart.
//
// The error is [ErrNoConversation] for a sub-agent that is on record; an *[InputError] or a
// *[LimitError] for a part of the route that is not UTF-8 or too long, or a key that is not that of
// a session; a [*policy.Refusal] for an agent that is not among those of Config.Rules; or one that
// every command can return.
func (s *Session) SetRoute(ctx context.Context, route session.Route) error {
	m := Incoming{Route: route}
	root, err := s.receive(ctx, &m)
	if err != nil {
		return orWrong(err, s.rt.wrongPost(Incoming{Text: "x", Route: route}))
	}
	if m.Route.IsZero() {
		m.Route = s.key.Route()
	}
	return s.rt.commandOrArchived(ctx, s.key, s.rt.sup.SetRoute(ctx, root, s.key, m.Route))
}

// wrongPost returns what says what is wrong with a message by itself, or nil.
func (rt *Runtime) wrongPost(m Incoming) func() error {
	return func() error { return m.Validate(rt.cfg().Limits.spawn()) }
}

// receive prepares what comes in for the session: it fills in the route from the key, and corrects
// what the parts say of their bytes. It returns the top-level session of the tree.
func (s *Session) receive(ctx context.Context, m *Incoming) (session.Key, error) {
	root, err := s.commandTree(ctx)
	if err != nil {
		return root, s.rt.commandOrArchived(ctx, s.key, err)
	}
	if err := s.rt.cfg().Rules.CheckAgent(s.key); err != nil {
		return root, inOurWords(err)
	}
	s.rt.expectRun()
	if m.Route = m.Route.Clean(); !m.Route.IsZero() { // zero: where the answers went before
		m.Route = m.Route.Or(s.key.Route())
	}
	m.Parts = s.realParts(m.Parts)
	return root, nil
}

// receiveFrom is receive for what a person, or the program, posts.
func (s *Session) receiveFrom(ctx context.Context, m *Incoming) (session.Key, error) {
	root, err := s.receive(ctx, m)
	if err != nil {
		return root, err
	}
	if m.Senders, err = s.sendersOf(ctx, m); s.turn != nil {
		m.Senders = policy.MergeSenders(s.turn.Senders(), m.Senders)
	}
	return root, err
}

// SendersOf returns the people who bind what comes of a message to the session, if that is posted,
// spawned or steered: who says it, in which conversation, and whether [Config].Owner takes that
// person for an owner. [Session.Post] does it itself. A program that starts something on behalf of
// a person without a Post puts them into [Task].Senders, or gives them to [Session.ToolsFor].
//
// They are those in m.Senders if it has any. They are nil for a message without From.ID to a cron
// session or a sub-agent, which the program says itself. A message without one to any other session
// is that of a person who is not known. Rules do not change who that is: they decide later what the
// people may use.
//
// The error is the cause of ctx, or [ErrShutdown]; while Config.Owner is asked it is
// [ErrNotRecorded], too.
func (s *Session) SendersOf(ctx context.Context, m Incoming) ([]policy.Sender, error) {
	if err := s.rt.checked(ctx); err != nil {
		return nil, err
	}
	if err := cmp.Or(context.Cause(ctx), s.rt.bindings.ended()); err != nil {
		return nil, err
	}
	return s.sendersOf(ctx, &m)
}

// IsOwner reports whether who says a message to the session is an owner of the bot, as
// Rules.Owners and [Config].Owner say. Without both everyone is. The error is as of
// [Session.SendersOf].
func (s *Session) IsOwner(ctx context.Context, m Incoming) (bool, error) {
	list, err := s.SendersOf(ctx, m)
	notOwner := func(x policy.Sender) bool { return !s.rt.cfg().Rules.IsOwner(x) }
	return err == nil && !slices.ContainsFunc(list, notOwner), err
}

func (s *Session) sendersOf(ctx context.Context, m *Incoming) ([]policy.Sender, error) {
	who, isPerson := policy.SenderOf(s.key, m.From, m.Route, m.Thread)
	if len(m.Senders) > 0 || !isPerson {
		return m.Senders, nil
	}
	if s.rt.cfg().Owner == nil {
		return []policy.Sender{who}, nil
	}
	owner, err := asked(ctx, s.rt, s.key, "Owner", func(ctx context.Context) (bool, error) {
		return s.rt.cfg().Owner(ctx, s.key, m.From)
	})
	if err != nil && (ctx.Err() != nil || s.rt.bindings.cut() != nil) {
		return nil, err
	}
	if err != nil { // least privilege
		s.rt.log.Warn("offshoot: Config.Owner failed", "session", s.key.String(),
			"error", s.rt.redact(err).Error())
	}
	who.Owner = owner && err == nil
	return []policy.Sender{who}, nil
}

// realParts returns parts that say what their bytes are, and logs what was not true.
func (s *Session) realParts(parts []Part) []Part {
	kept := slices.Clone(parts)
	for i, p := range parts {
		if len(p.Data) == 0 || p.ValidateNew() != nil {
			continue // what is not valid is refused as it was given
		}
		r := &kept[i]
		*r = withRealType(p, p.Data)
		if r.Kind != p.Kind || r.MediaType != p.MediaType && p.MediaType != "" {
			s.rt.log.Warn("offshoot: a part of a message is not what it says",
				"session", s.key.String(), "part", i, "kind", text.Word(string(p.Kind)),
				"said", text.Word(p.MediaType), "found", r.MediaType)
		}
	}
	return kept
}

// visibleReply returns a reply with visible text only, once more, so that every path to people
// passes Visible. A Text that an earlier version recorded may have tags; which message was the
// current one is not known then.
func visibleReply(r Reply) Reply {
	tags := announce.ReadTags(r.Text)
	if r.ReplyTo == "" {
		r.ReplyTo = tags.To
	}
	r.Voice = r.Voice || tags.Voice
	r.Text, _ = announce.Visible(r.Text)
	return r
}

// shownReply is visibleReply for people, who are shown no credentials unless the Config opens that.
func (rt *Runtime) shownReply(r Reply) Reply {
	r = visibleReply(r)
	r.Text = speaking(rt.redactor.At(announce.BoundaryReplies, r.Text), r.Text)
	return r
}

// Say tells people something before the turn has ended: Config.Reply gets it as it gets the answer
// of the turn, before that, and with Reply.Interim set. It passes the same filter: control tokens
// and what only a model should read are taken out, and reply tags count. Say returns when the text
// is durable: it is not lost over a crash.
//
// The first text of a turn is named 1, the next one 2, and so on, and a name is said once. A turn
// that repeats one that a crash interrupted counts from 1 again: what has been said then is not
// sent again, whatever the text is, and Say returns nil. Such a turn finds in its Prompt what has
// been said. A Runner that may say other things at its second attempt names them, with
// [Turn.SayAs].
//
// A text is not a line of the transcript. A Runner that wants the model to know in later turns what
// was said records it, with [Turn.Record].
//
// The error is [ErrNoConversation] in the turn of a sub-agent, an *[InputError] for a text of which
// people would see nothing, a *[LimitError] for more texts in a turn than the [Limits] allow,
// [ErrStale] after the turn and once it is cancelled, or one that every command can return. After
// ErrUnconfirmed the text may have been said.
func (t *Turn) Say(ctx context.Context, text string) error { return t.say(ctx, "", text) }

// SayAs is [Turn.Say] under a name of the Runner's own. The same name is said once until the inputs
// of the turn are consumed, however often the turn is repeated. After [ErrUnconfirmed] say it again
// under the same name. An empty id is an *[InputError], as is one that is not UTF-8, and one that
// is longer than the Limits allow is a *[LimitError].
func (t *Turn) SayAs(ctx context.Context, id, text string) error {
	if id == "" {
		return &InputError{Field: "id", Reason: "it is empty"}
	}
	return t.say(ctx, id, text)
}

func (t *Turn) say(ctx context.Context, id, said string) error {
	if err := t.rt.checked(ctx); err != nil {
		return err
	}
	if err := t.err(); err != nil {
		return err
	}
	said = secret.Bound(t.rt.redactor.Redact, said, t.rt.cfg().Limits.Reply)
	shown, visible := announce.Visible(said)
	if !visible {
		return &InputError{Field: "text", Reason: "people would see nothing of it"}
	}
	tags := announce.ReadTags(said)
	err := t.spawn.Say(ctx, spawn.Saying{
		ID: id, Text: shown, ReplyTo: t.replyTo(tags), Voice: tags.Voice,
	})
	if err == nil {
		t.mu.Lock()
		t.said = true
		t.mu.Unlock()
	}
	return err
}

// hasSaid reports whether people were told something in this turn.
func (t *Turn) hasSaid() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.said
}

// followsCrashText is what a turn is told that follows a run which a crash has interrupted.
const followsCrashText = "## Interrupted Turn\n" +
	"A restart interrupted your last turn before this one, and what you did in it is not shown " +
	"above. What your tools did then is done, and sub-agents that you started then count as " +
	"started: find out before you do anything of that again."

// retryText is what a session is told in a turn that repeats an interrupted one, which has said
// something to people already. The tool calls of the model may have other ids this time, so that
// only the model itself can know what it has started already.
func retryText(said []string) string {
	var b strings.Builder
	b.WriteString("## Interrupted Turn\n" +
		"A restart interrupted you while you were answering these messages; ")
	if len(said) == 0 {
		b.WriteString("nothing of that answer has been sent.\n")
	} else {
		b.WriteString("people have been sent what follows, verbatim, and nothing else of that " +
			"answer. Do not say it again.\n")
	}
	for _, s := range said {
		b.WriteString(agentctx.Fenced(text.Bound(s, maxRetold)) + "\n")
	}
	b.WriteString("What your tools did then is done, and sub-agents that you started then count " +
		"as started: do not start them again.")
	return b.String()
}

// peopleText is what a sub-agent is told in a turn that answers a conversation that is bound to it.
const peopleText = "## Answering People\n" +
	"People in a chat of your own have written to you. What you answer in this turn is sent to " +
	"them there, and not reported to your requester: write to them, in words. What is said above " +
	"of your report, such as its form, does not hold for this answer."

// maxRetold is how many bytes of a text that was said the prompt of a repeated turn repeats.
const maxRetold = 20_000

// tellSenders returns messages as a model of the session is told them: where several people may
// speak, a message of a person begins with a line that says who speaks, and no other line of it
// looks like one. Ids have a form, which is that of the list of senders. It changes no message and
// not the slice, and what a message becomes follows from the message and the form alone.
func tellSenders(key session.Key, form text.IDForm, messages []Message) []Message {
	if !isSeveral(key) {
		return messages
	}
	told := messages
	for i, m := range messages {
		if !isPersons(m) {
			continue
		}
		shown := sender.Line(m.From, form) + sender.QuoteForged(m.Text)
		if m.Text == "" { // it has parts alone
			shown = strings.TrimSuffix(shown, "\n")
		}
		if shown == m.Text {
			continue
		}
		if &told[0] == &messages[0] {
			told = slices.Clone(messages)
		}
		told[i].Text = shown
	}
	return told
}

// isSeveral reports whether several people may speak to a session: in a group, in a channel, or to
// a sub-agent, to which any conversation may be bound.
func isSeveral(key session.Key) bool {
	k := key.Kind()
	return k == session.KindGroup || k == session.KindChannel || key.IsSubagent()
}

// isPersons reports whether a person says a message.
func isPersons(m Message) bool { return m.Role == session.MessageUser && !m.Internal }

// Announce has the top-level session to know of something that no person has said and no
// sub-agent has done: that a job of the program is over, that a file has come. It returns when that
// is durable. The session is told once for each id, which names the event for seven days: an
// Announce that is repeated, also after a restart, changes nothing, and its Receipt says Existing.
// Ids of messages and ids of events are apart.
//
// A session that Offshoot runs gets a turn over it. Its model reads e as [announce.Event.ForModel]
// renders it, and what it answers goes where its last answer went; nothing, if it chooses silence.
// A session that the caller runs is handed it by Config.Deliver, in order with the ends of its
// sub-agents: [announce.EventOf] reads the event of a Delivery.
//
// A zero Status is taken for [spawn.StatusOK], a Source that is [announce.SourceSubagent] without a
// Child for [announce.SourceProgram], and the Nonce is always drawn anew. What e says is data to
// the model, never an instruction.
//
// The error is an *[InputError] for an empty id, a sub-agent or a Status that is not
// [spawn.Status.Terminal], a *[LimitError] for what is longer
// than Limits.Message as JSON, or one that every command can return. After [ErrUnconfirmed]
// announce it again with the same id.
func (rt *Runtime) Announce(
	ctx context.Context, to session.Key, id string, e announce.Event,
) (Receipt, error) {
	if err := rt.checked(ctx); err != nil {
		return Receipt{}, err
	}
	if e.Nonce, e.Status = session.NewID(), cmp.Or(e.Status, spawn.StatusOK); !e.Status.Terminal() {
		reason := fmt.Sprintf("it is %v, and what is announced has ended", e.Status)
		return Receipt{}, &InputError{Field: "event.status", Reason: reason}
	}
	if e.Source == announce.SourceSubagent && e.Child.IsZero() {
		e.Source = announce.SourceProgram
	}
	b, err := json.Marshal(e)
	if err != nil {
		return Receipt{}, &InputError{Field: "event", Reason: err.Error()}
	}
	rt.expectRun()
	receipt, err := rt.sup.Announce(ctx, to, spawn.Event{ID: id, Text: string(b)})
	return receipt, inOurWords(err)
}
