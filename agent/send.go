package agent

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/agent/internal/target"
	"github.com/offshoot-sdk/offshoot/announce"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

var sendSchema = json.RawMessage(`{"type":"object","properties":{` +
	`"sessionKey":{"type":"string","description":"a sub-agent: its number in the list that you were shown last, run id, taskName, label, session key, or last: the newest; or the key, the id or the label of another session"},` +
	`"message":{"type":"string","description":"what it is told: at most 4000 characters, one in 2 seconds"},` +
	`"timeoutSeconds":{"type":"number","minimum":0,"maximum":30,"description":"wait so long for the answer; default: do not wait"}` +
	`},"required":["sessionKey","message"]}`)

// Bounds of what a model sends to a session, as those of a steer.
const (
	maxSent   = 4000 // characters
	sendPause = 2 * time.Second
)

// maxSendTimeout is how long a model may wait for an answer.
const maxSendTimeout = 30 * time.Second

// sendReply is what a model is told of a message that it has sent.
type sendReply struct {
	// Status is accepted, undelivered, or that of the answer.
	Status     string `json:"status"`
	SessionKey string `json:"sessionKey"`
	RunID      string `json:"runId,omitempty"`
	// Reply is what the receiver has answered while the model waited.
	Reply string `json:"reply,omitempty"`
	Note  string `json:"note"`
}

// send is the tool sessions_send.
func (h toolHost) send(ctx context.Context, c ToolCall) (string, error) {
	a, err := readArguments(toolSend, c.Args,
		"target", "message", "sessionKey", "label", "timeoutSeconds")
	if err != nil {
		return "", err
	}
	named := a.session("sessionKey", "target", "label")
	m := Incoming{ID: h.sendID(ctx, c), Text: a.text("message")}
	wait := a.sendTimeout()
	if named.text == "" {
		a.fail(named.argument, "it is required")
	}
	if err := cmp.Or(a.err, checkSent(toolSend, m.Text)); err != nil {
		return "", err
	}
	to, err := h.receiver(ctx, named)
	if err != nil {
		return "", err
	}
	return h.sendPaced(ctx, to, m, wait)
}

// checkSent returns why a model cannot send a message, or nil.
func checkSent(tool, message string) error {
	if text.IsBlank(message) {
		return newArgumentError(tool, "message", "it is required")
	}
	if n := utf8.RuneCountInString(message); n > maxSent {
		return newArgumentError(tool, "message",
			fmt.Sprintf("it has %d characters, the limit is %d", n, maxSent))
	}
	return nil
}

// sendTimeout returns how long the model waits for the answer to a message.
func (a *arguments) sendTimeout() time.Duration {
	s, _ := a.number(numberRange{most: maxSendTimeout.Seconds()}, "timeoutSeconds")
	return time.Duration(s * float64(time.Second))
}

// sendID names a message of a model, so that a call that is repeated sends it once.
func (h toolHost) sendID(ctx context.Context, c ToolCall) string {
	place, _ := ctx.Value(placeKey{}).(string)
	if c.ID == "" && place == "" {
		return ""
	}
	sum := sha256.Sum256(c.Args)
	return h.spawnKey(h.token + place + "/" + shortID(c.ID) + "/" + hex.EncodeToString(sum[:16]))
}

// receiver returns the session that a model means: one below its own, or another one that it may
// write to by its id or label, or any by its key, of which policy says whether it may.
func (h toolHost) receiver(ctx context.Context, n sessionName) (to policy.Target, err error) {
	key, err := session.Parse(n.text)
	if err != nil {
		key, err = h.byName(ctx, n, policy.VerbSend)
	}
	if bad, ok := errors.AsType[*TargetError](err); ok && len(bad.Candidates) == 0 {
		return to, h.fail(n, bad.Reason+", nor is it another session that you may write to")
	}
	if err != nil {
		return to, err
	}
	return h.target(ctx, key)
}

// below returns a sub-agent below the session of h. The error is ErrNotFound if it is not there.
func (h toolHost) below(ctx context.Context, key session.Key) (RunInfo, error) {
	if h.turn != nil {
		return h.turn.spawn.Find(ctx, spawn.RunRef{Session: key})
	}
	runs, err := h.session.Tree(ctx)
	if err != nil {
		return RunInfo{}, err
	}
	for _, r := range runs {
		if r.Key == key {
			return r, nil
		}
	}
	return RunInfo{}, ErrNotFound
}

// sendPaced is a tool that sends a message to a session, under the bounds of a steer. What was
// refused or not taken does not count for the pause.
func (h toolHost) sendPaced(
	ctx context.Context, to policy.Target, m Incoming, wait time.Duration,
) (string, error) {
	pair := target.Pair{From: h.session.key, To: to.Key}
	unsent, ok := h.rt.sends.Pass(pair, m.ID, sendPause, time.Now())
	if !ok {
		return jsonReply(spawnReply{
			Status: "rate_limited", Limit: "one in " + sendPause.String(),
			Error: "you have written to this session less than 2 seconds ago; write again later",
		})
	}
	out, taken, err := h.sendTo(ctx, to, m, wait)
	if !taken {
		unsent()
	}
	return out, err
}

// errNoAgent is what refuses a session of an agent that is not configured.
var errNoAgent = &policy.Refusal{Op: "session", Rule: policy.RuleTarget}

// sendTo sends a message to a session if policy lets it, and waits for the answer. Taken says that
// the session has the message, or may have it.
func (h toolHost) sendTo(
	ctx context.Context, to policy.Target, m Incoming, wait time.Duration,
) (out string, taken bool, err error) {
	err = h.authorizeFor(ctx, policy.VerbSend, to)
	if err == nil {
		var got sent
		if got, err = h.post(ctx, to, m, wait); err == nil {
			reply := sendReply{
				Status: "accepted", SessionKey: got.receipt.Session.String(),
				RunID: string(got.receipt.Run), Note: sendNote(to, got.receipt),
			}
			if got.receipt.Run == "" && wait > 0 {
				out, err = h.answeredByTop(ctx, reply, got)
			} else {
				out, err = h.answered(ctx, reply, got.receipt, wait)
			}
			return out, true, err
		}
	}
	if isLate(ctx, err) {
		return "", true, err // no model can do anything about it
	}
	refusal, ok := errors.AsType[*policy.Refusal](err)
	if ok && len(to.Ancestors) == 0 && errors.Is(err, errNoAgent) {
		err = ErrNotFound // so are the sessions of an agent that is there
	} else if ok {
		reply := h.rt.refusalReply(refusal)
		if refusal.Rule == policy.RuleControl && to.Key.IsSubagent() && len(to.Ancestors) == 0 {
			reply.Error = "session " + to.Key.String() + ": " + notBelow
		}
		out, err = jsonReply(reply)
		return out, false, err
	}
	taken = errors.Is(err, ErrUnconfirmed)
	err = h.rt.commandOrArchived(ctx, to.Key, err)
	out, err = jsonReply(spawnReply{Status: "error", Error: h.sendError(to.Key, err)})
	return out, taken, err
}

// notBelow is what a model is told of the key of a sub-agent that is not below its session: it may
// be archived, in another tree or not there at all, and which of these is not told.
const notBelow = "it is not a sub-agent below this session, or not any more, as one that was " +
	"archived is not; start another sub-agent and give it what it must know"

// sent is what became of a message of a model. Beside the receipt it has, if the receiver is a
// top-level session and the model waits, the reply, or why there is none.
type sent struct {
	receipt Receipt
	reply   Reply
	none    error
}

// post sends a message of the model to a session, and waits so long for the reply of a top-level
// one. To that of another tree it goes by the outbox of the model's own. The error says that the
// message was not taken.
func (h toolHost) post(
	ctx context.Context, to policy.Target, m Incoming, wait time.Duration,
) (got sent, err error) {
	opt := spawn.SendOptions{
		Announce: true, ByModel: true, Origin: h.origin(ctx), Within: wait,
	}
	if h.turn != nil && len(to.Ancestors) > 0 {
		got.receipt, err = h.turn.spawn.Send(ctx, to.Key, m, opt)
		return got, inOurWords(err)
	}
	if h.turn != nil {
		if err := h.turn.err(); err != nil {
			return got, err
		}
	}
	m.Senders = h.senders(ctx)
	root, err := h.rt.Session(to.Key).receive(ctx, &m)
	var own session.Key
	if err == nil {
		own, err = h.session.commandTree(ctx)
	}
	switch {
	case err != nil:
		return got, err
	case to.Key == root && root != own && h.turn != nil:
		got.receipt, got.reply, err = h.turn.spawn.SendOut(ctx, root, m, wait)
	case to.Key == root && root != own:
		got.receipt, got.reply, err = h.rt.sup.SendOut(ctx, own, h.session.key, root, m, wait)
	case wait <= 0 || to.Key != root:
		got.receipt, err = h.rt.sup.Send(ctx, root, h.session.key, to.Key, m, opt)
	case h.turn != nil:
		got.receipt, got.reply, err = h.turn.spawn.SendAndWait(ctx, root, m, opt)
	default:
		got.receipt, got.reply, err = h.rt.sup.SendAndWait(ctx, root, h.session.key, root, m, opt)
	}
	if err != nil && !got.receipt.Session.IsZero() {
		got.none, err = err, nil
	}
	return got, inOurWords(err)
}

// sendNote tells a model what becomes of its message.
func sendNote(to policy.Target, r Receipt) string {
	const comes = " What it reports comes to you automatically when it has ended, unless it has " +
		"nothing to say: do not poll for it."
	switch {
	case r.Existing:
		return "It had this message already, and was not told again."
	case r.Pending:
		return "It is sent. The session reads the message in its own conversation, and answers " +
			"there, not here."
	case len(to.Ancestors) == 0:
		return "It reads the message in its own conversation, and answers there, not here."
	case r.Began:
		return "It had ended. The message has begun another run of it, with its conversation so far." +
			comes
	}
	return "It is at work, and reads the message in its present run." + comes
}

// sendError tells a model why its message was not taken.
func (h toolHost) sendError(key session.Key, err error) string {
	ended, below := errors.AsType[*spawn.EndedError](err)
	why := h.told(toolSend, err).Error()
	switch {
	case errors.Is(err, ErrArchived):
		why = "it was archived some time after its end, and takes no messages any more; start " +
			"another sub-agent and give it what it must know"
	case below && ended.Ended.IsValid():
		why = "it has ended, and so has " + ended.Ended.String() + " above it, which would be told " +
			"of what comes of the message; send the message to that one instead"
	case errors.Is(err, ErrEnded):
		why = "it ended before it began to work, so that there is nothing to go on from; start " +
			"another sub-agent for the task"
	case errors.Is(err, spawn.ErrStopping):
		why = "it is being stopped; send the message again when it has ended"
	case errors.Is(err, ErrNotFound):
		why = "there is no such session"
	}
	return "session " + key.String() + ": " + why
}

// answered waits for the run that has a message, and adds what it came to. Its end is announced all
// the same: the process may die before the model has read it here.
func (h toolHost) answered(
	ctx context.Context, reply sendReply, r Receipt, wait time.Duration,
) (string, error) {
	if wait <= 0 || r.Run == "" {
		return jsonReply(reply)
	}
	refs, opt := []spawn.RunRef{r.Ref()}, JoinOptions{Within: wait}
	var runs []RunInfo
	var err error
	if h.turn != nil {
		runs, err = h.turn.spawn.Wait(ctx, refs, opt)
	} else if root, rerr := h.session.tree(ctx); rerr == nil {
		runs, err = h.rt.sup.Wait(ctx, root, refs, opt)
	}
	if isLate(ctx, err) {
		return "", err
	}
	if err != nil || len(runs) == 0 || !runs[0].Status.Terminal() {
		reply.Note = "It has not answered yet. " + reply.Note
		return jsonReply(reply)
	}
	if err := h.hear(ctx, runs[0].Senders); err != nil {
		return "", err
	}
	reply.Status = runs[0].Status.String()
	if announce.NewEvent(&spawn.Completion{Run: runs[0]}).Silent {
		reply.Note = nothingToSay // and no message says so once more
		return jsonReply(reply)
	}
	reply.Note = "It has ended without a result."
	if reply.Reply = h.shownAnswer(runs[0].Result.Text); reply.Reply != "" {
		reply.Note = "The reply is what it came to."
	}
	reply.Note += " The same comes to you as a message once more: do not act on it twice."
	return jsonReply(reply)
}

// nothingToSay is what a model is told of a session that stays silent.
const nothingToSay = "It has read the message, and has nothing to say."

// answeredByTop adds to the reply of a tool what a top-level session has answered to people in the
// time for which the model waited, or what is known instead.
func (h toolHost) answeredByTop(
	ctx context.Context, reply sendReply, got sent,
) (string, error) {
	if isLate(ctx, got.none) {
		return "", cmp.Or(got.none, context.Cause(ctx))
	}
	none := func(e error) bool { return errors.Is(got.none, e) }
	switch {
	case got.none == nil && got.reply.Failed:
		reply.Status = spawn.StatusFailed.String()
		reply.Note = "The turn over your message has failed. The reply is what its people are told."
	case got.none == nil:
		reply.Status = spawn.StatusOK.String()
		reply.Note = "The reply is its answer, which goes to the people of its own conversation, " +
			"too. It does not come to you once more."
	case none(ErrSilent):
		reply.Status = spawn.StatusOK.String()
		reply.Note = nothingToSay
	case none(ErrAnswered):
		reply.Note += " It has dealt with it."
	case none(ErrTurnCancelled), none(ErrStopped):
		reply.Note = "Its turn was stopped before it answered."
	case none(ErrUndelivered):
		reply.Status = "undelivered"
		reply.Note = "The message could not be delivered, and is not tried again unless a person " +
			"has it tried."
	case got.receipt.Pending:
		reply.Note = "It has not arrived yet, and is delivered as soon as that can be done. " +
			reply.Note
	default:
		reply.Note = "It has not answered yet. " + reply.Note
	}
	if got.none == nil {
		if err := h.hear(ctx, got.reply.Senders); err != nil {
			return "", err
		}
		reply.Reply = h.shownAnswer(visibleReply(got.reply).Text)
	}
	return jsonReply(reply)
}

// shownAnswer returns what a session has answered as the model of another one reads it.
func (h toolHost) shownAnswer(answer string) string {
	return text.Bound(h.rt.toModels(announce.Sanitize(answer)), maxHistoryText)
}

// isLate reports whether no model reads what the call of a tool answers that has come to err: the
// turn, the Runtime or the context of the call has ended.
func isLate(ctx context.Context, err error) bool {
	return errors.Is(err, ErrStale) || errors.Is(err, spawn.ErrShutdown) || ctx.Err() != nil
}
