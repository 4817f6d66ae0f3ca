package spawn

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/owner"
	"github.com/offshoot-sdk/offshoot/spawn/internal/route"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// This file brings commands to the process that has their tree. A call first asks the owner of the
// tree in this process. If that is told that another process has the tree, the operation is asked
// of that one, under an id that is known there. If no process has the tree any more, this one takes
// it. What a process that is gone may have done already is done again only if the tree knows it by
// its id, or if it comes to the same.

// wireErrors are the errors that a caller finds with errors.Is and errors.As also if another
// process returned them.
var wireErrors = route.Errors{
	route.Is("not_found", ErrNotFound), route.Is("ended", ErrEnded),
	route.Is("stopping", ErrStopping), route.Is("budget", ErrBudget),
	route.Is("unconfirmed", ErrUnconfirmed), route.Is("not_recorded", ErrNotRecorded),
	route.Is("unreadable", ErrUnreadable), route.Is("key_conflict", ErrKeyConflict),
	route.Is("no_conversation", ErrNoConversation), route.Is("not_bound", ErrNotBound),
	route.Is("announcing", ErrAnnouncing), route.Is("not_top_level", ErrNotTopLevel),
	route.Is("nothing", ErrNothing), route.Is("silent", ErrSilent),
	route.Is("answered", ErrAnswered), route.Is("undelivered", ErrUndelivered),
	route.Is("stopped", ErrStopped), route.Is("timed_out", ErrTimedOut),
	route.Is("turn_cancelled", ErrTurnCancelled), route.Is("shutdown", ErrShutdown),
	route.Is("stale", ErrStale), route.Is("no_record", ErrNoRecord),
	route.Is("untouched", ErrUntouched), route.Is("exited", ErrExited),
	route.Is("moved", tree.ErrMoved), route.Is("no_deposit", tree.ErrNoDeposit),
	route.Is("deadline", context.DeadlineExceeded), route.Is("cancelled", context.Canceled),
	route.Is("session_owned", session.ErrOwned), route.Is("session_conflict", session.ErrConflict),
	route.Is("session_not_found", session.ErrNotFound),
	route.Is("session_unanswered", session.ErrUnanswered),
	route.Is("session_invalid_key", session.ErrInvalidKey),
	route.Is("session_invalid_line", session.ErrInvalidLine),
	route.Is("session_invalid_part", session.ErrInvalidPart),
	route.Is("session_invalid_batch", session.ErrInvalidBatch),
	route.Is("session_no_files", session.ErrNoFiles),
	route.Is("session_file_changed", session.ErrFileChanged),
	route.Is("session_archived", session.ErrArchived),
	route.Is("session_not_archived", session.ErrNotArchived),
	route.Is("session_closed", session.ErrClosed),
	route.Is("session_read_only", session.ErrReadOnly),
	route.Is("session_corrupt", session.ErrCorrupt), route.Is("session_format", session.ErrFormat),
	route.Is("session_corrupt_lineage", session.ErrCorruptLineage),
	route.Is("session_unsafe", session.ErrUnsafe), route.Is("session_sync", session.ErrSync),
	route.As[policy.Refusal]("refusal"), route.As[InputError]("input"),
	route.As[LimitError]("limit"), route.As[KeyConflictError]("key_conflict_of"),
	route.As[NameTakenError]("name_taken"), route.As[ChildrenError]("children"),
	route.As[EndedError]("ended_above"), route.As[StillRunningError]("still_running"),
	route.As[session.OwnedError]("owned"), route.As[session.PartError]("part"),
	route.As[session.KeyError]("key"), route.As[session.CorruptError]("corrupt"),
	route.As[session.LineageError]("lineage"), route.As[route.UnknownError]("unknown"),
	route.Via("callback", func(e *CallbackError) *wireCause {
		return &wireCause{Name: e.Callback, Cause: causeText(e.Err)}
	}, func(w *wireCause) *CallbackError { return &CallbackError{w.Name, errors.New(w.Cause)} }),
	route.Via("veto", func(e *VetoError) *wireCause {
		return &wireCause{Name: e.Reason, Cause: causeText(e.Err)}
	}, func(w *wireCause) *VetoError { return &VetoError{w.Name, errors.New(w.Cause)} }),
	route.Via("panic", func(e *PanicError) *wireCause {
		return &wireCause{Cause: fmt.Sprint(e.Value), Stack: e.Stack}
	}, func(w *wireCause) *PanicError { return &PanicError{Value: w.Cause, Stack: w.Stack} }),
	route.Via("journal", func(e *JournalError) *wireCause {
		return &wireCause{Root: e.Root, Seq: e.Seq, Cause: causeText(e.Err)}
	}, func(w *wireCause) *JournalError {
		return &JournalError{Root: w.Root, Seq: w.Seq, Err: errors.New(w.Cause)}
	}),
}

// A wireCause is an error that has another one, of which the text crosses.
type wireCause struct {
	Name  string      `json:"name,omitempty"`
	Cause string      `json:"cause,omitempty"`
	Stack []byte      `json:"stack,omitempty"`
	Root  session.Key `json:"root,omitzero"`
	Seq   session.Seq `json:"seq,omitempty"`
}

func causeText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// A wireRun is what is known of a run, with its texts byte for byte.
type wireRun struct {
	Info                        RunInfo   `json:"info"`
	Task                        tree.Text `json:"task,omitempty"`
	Text, Announcement, Refused tree.Text
}

func (w *wireRun) take(info RunInfo) {
	w.Task, w.Text = tree.Text(info.Task), tree.Text(info.Result.Text)
	w.Announcement, w.Refused = tree.Text(info.Announcement), tree.Text(info.Refused)
	info.Task, info.Result.Text, info.Announcement, info.Refused = "", "", "", ""
	w.Info = info
}

func (w *wireRun) run() RunInfo {
	info := w.Info
	info.Task, info.Result.Text = string(w.Task), string(w.Text)
	info.Announcement, info.Refused = string(w.Announcement), string(w.Refused)
	return info
}

// A wireAnswered is what became of a message whose sender waits. Text is that of the reply if it is
// not UTF-8, byte for byte.
type wireAnswered struct {
	Receipt Receipt   `json:"receipt"`
	Reply   Reply     `json:"reply"`
	Text    tree.Text `json:"text,omitempty"`
}

// wireAnsweredOf returns what became of a message in the form that crosses.
func wireAnsweredOf(got answered) *wireAnswered {
	w := &wireAnswered{Receipt: got.receipt, Reply: got.reply}
	if !utf8.ValidString(w.Reply.Text) {
		w.Text, w.Reply.Text = tree.Text(w.Reply.Text), ""
	}
	return w
}

func (w *wireAnswered) answered() answered {
	w.Reply.Text = cmp.Or(string(w.Text), w.Reply.Text)
	return answered{w.Receipt, w.Reply}
}

// routedKey marks the ctx of an operation that another process asked for, with the root of the
// tree: it is not passed on. What a function of the Config asks meanwhile of another tree is.
type routedKey struct{}

// elsewhere reports whether err says that another process has a tree, so that the call can be
// brought there.
func (s *Supervisor) elsewhere(ctx context.Context, root session.Key, err error) bool {
	return err != nil && s.cluster != nil && isOwned(err) && ctx.Value(routedKey{}) != root
}

// isOwned reports whether err says that another process has the tree. What a function of the Config
// has returned says nothing of it.
func isOwned(err error) bool {
	if _, veto := errors.AsType[*VetoError](err); veto {
		return false
	}
	if _, callback := errors.AsType[*CallbackError](err); callback {
		return false
	}
	return errors.Is(err, session.ErrOwned)
}

// doThere has the process that has a tree do a command, which failed here with err because of that.
// Beside a command of another process read is called without a tree.
func (s *Supervisor) doThere(
	ctx context.Context, root session.Key, cmd tree.Command, read func(*tree.Tree, tree.Reply),
	err error,
) error {
	if cmd == nil || !route.Takes(cmd) {
		return err
	}
	var reply route.Reply
	there, err := s.cluster.route(ctx, root, cmd, err, &reply, func(bool) error {
		return s.doHere(ctx, root, cmd, read)
	})
	if there && err == nil && read != nil {
		read(nil, reply.Tree())
	}
	return err
}

// spawnThere is Spawn for a tree of another process.
func (s *Supervisor) spawnThere(
	ctx context.Context, root, requester session.Key, q Request, err error,
) (info RunInfo, _ error) {
	cmd := q.command(requester, string(q.ID))
	cmd.Shown, cmd.Senders = s.shownLabel(q.Label), sendersIn(ctx, q.Senders)
	var w wireRun
	there, err := s.cluster.route(ctx, root, &cmd, err, &w, func(again bool) (err error) {
		info, err = s.spawnHere(ctx, root, requester, q, again)
		return err
	})
	if there {
		info = w.run()
	}
	if err != nil {
		return RunInfo{}, repeatable(err, q.repeat())
	}
	return info, nil
}

// spawnHere admits a child in this process. With again it is not known whether it was before: if q
// has no Key, its run is known by its ID.
func (s *Supervisor) spawnHere(
	ctx context.Context, root, requester session.Key, q Request, again bool,
) (RunInfo, error) {
	if again && q.Key == "" {
		if info, known, err := s.runOf(ctx, root, requester, q.ID); known || err != nil {
			return info, err
		}
	}
	return withShell(s, root, func(sh *treeShell) (RunInfo, error) {
		return sh.spawn(ctx, requester, q, nil)
	})
}

// runOf returns the run of an id among the children of a session, if there is one.
func (s *Supervisor) runOf(
	ctx context.Context, root, requester session.Key, id RunID,
) (info RunInfo, known bool, err error) {
	err = s.doHere(ctx, root, nil, func(t *tree.Tree, _ tree.Reply) {
		if r := t.Run(requester); r != nil {
			r.Children(func(c *tree.Run) bool {
				if known = c.Spec.ID == string(id); known {
					of, _ := c.RunOf(string(id))
					info = runInfoOf(t, c, &of)
				}
				return !known
			})
		}
	})
	return info, known, unrecordedAnyway(err)
}

// postAndWaitThere is postAndWait for a tree of another process.
func (s *Supervisor) postAndWaitThere(
	ctx context.Context, root session.Key, cmd *tree.Post, within time.Duration,
	got answered, err error,
) (answered, error) {
	defer turnOf(ctx).pause()()
	var w wireAnswered
	op := &route.PostAndWait{Post: cmd, Within: within}
	there, err := s.cluster.route(ctx, root, op, err, &w, func(bool) (err error) {
		got, err = s.postAndWaitHere(ctx, root, cmd, within)
		return err
	})
	if there {
		got = w.answered()
	}
	return got, err
}

// sendOutThere is sendOutHere for a tree of another process.
func (s *Supervisor) sendOutThere(
	ctx context.Context, root session.Key, cmd *tree.SendOut, within time.Duration, err error,
) (got answered, _ error) {
	if within > 0 {
		defer turnOf(ctx).pause()()
	}
	var w wireAnswered
	op := &route.SendOut{Send: *cmd, Within: max(within, 0)}
	there, err := s.cluster.route(ctx, root, op, err, &w, func(bool) (err error) {
		got, err = s.sendOutHere(ctx, root, cmd, within, nil)
		return err
	})
	if there {
		got = w.answered()
	}
	return got, err
}

// depositThere begins a deposit in a tree of another process. The owner that may have begun it and
// is gone has left it to the next one, which gives it up: then it is begun anew, under another ID,
// which depositThere sets.
func (s *Supervisor) depositThere(
	ctx context.Context, root, requester session.Key, q *Request, err error,
) (info RunInfo, _ error) {
	for pause := routeAgain; ; pause = min(2*pause, routeAtMost) {
		info, err = s.spawnThere(ctx, root, requester, *q, err)
		if !errors.Is(err, session.ErrUnanswered) || ctx.Err() != nil {
			return info, err
		}
		s.abandonThere(root, string(q.ID))
		if err := s.cluster.pauseRoute(ctx, root, pause, false); err != nil {
			return info, err
		}
		q.ID, err = RunID(s.ids.newID()), session.ErrOwned
	}
}

// abandonThere is tree.Abandon for a deposit in a tree of another process. It goes on after its
// caller, until that process has answered or the work of this one ends.
func (s *Supervisor) abandonThere(root session.Key, id string) {
	cmd := tree.Abandon{ID: id}
	s.workers.start(s.workers.marked(s.workCtx, root, func(ctx context.Context) {
		for again := time.NewTimer(0); ; again.Reset(sweepEvery) {
			select {
			case <-again.C:
			case <-ctx.Done():
				return
			}
			var reply route.Reply
			_, err := s.cluster.route(ctx, root, cmd, session.ErrOwned, &reply, func(bool) error {
				return s.doHere(ctx, root, cmd, nil)
			})
			if err == nil || ctx.Err() != nil {
				return
			}
		}
	}))
}

// handle answers a request of another process.
func (c *cluster) handle(ctx context.Context, r session.Request) []byte {
	var value any
	err := contained(func() (err error) {
		asked, err := route.DecodeRequest(r.Body)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrNotRecorded, err)
		}
		again := asked.Again || r.Attempt > 1
		if again && !route.Repeats(asked.Op) {
			return fmt.Errorf("%w: %w", ErrUnconfirmed, session.ErrUnanswered)
		}
		within := context.WithValue(ctx, routedKey{}, r.Root)
		if asked.Left > 0 {
			var cancel context.CancelFunc
			within, cancel = context.WithTimeout(within, asked.Left)
			defer cancel()
		}
		value, err = c.sup.perform(within, r.Root, asked.Op, again)
		if again {
			err = maybeDone(err)
		}
		return err
	})
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", ErrShutdown, err)
	}
	answer := route.Answer{Err: wireErrors.Encode(err)}
	answer.Value, _ = route.Marshal(value) // the types of perform do not fail
	body, _ := route.EncodeAnswer(answer)
	if len(body) > session.RequestLimit {
		err = fmt.Errorf("%w: the answer has %d bytes, the limit is %d", ErrUnconfirmed, len(body),
			session.RequestLimit)
		body, _ = route.EncodeAnswer(route.Answer{Err: wireErrors.Encode(err)})
	}
	return body
}

// perform does an operation that another process has asked for. With again it is not known whether
// it was done before. The value counts beside an error, too.
func (s *Supervisor) perform(
	ctx context.Context, root session.Key, op route.Op, again bool,
) (value any, err error) {
	switch op := op.(type) {
	case *tree.Spawn:
		var w wireRun
		info, err := s.performSpawn(ctx, root, op, again)
		w.take(info)
		return &w, err
	case *route.PostAndWait:
		for {
			got, err := s.postAndWaitHere(ctx, root, op.Post, op.Within)
			if err != nil {
				if err = s.answerAll(ctx, op.Post.To, err, &op.Post.Answers); err == nil {
					continue
				}
			}
			return wireAnsweredOf(got), err
		}
	case *route.SendOut:
		got, err := s.sendOutHere(ctx, root, &op.Send, op.Within, nil)
		return wireAnsweredOf(got), err
	case *route.Stop:
		ref := RunRef{Session: op.Session, Run: RunID(op.Run)}
		return nil, s.stopHere(ctx, root, ref, string(op.Reason))
	case *route.Rest:
		return s.performRest(ctx, root, op)
	case *route.Reset:
		return nil, s.ResetOnce(ctx, root, op.Session, op.ID)
	case *route.Compact:
		return nil, s.Compact(ctx, root, op.Session)
	case *route.Delete:
		return nil, s.DeleteSession(ctx, root, op.Session, string(op.Reason))
	case *route.Revive:
		return nil, s.Revive(ctx, op.Session)
	case tree.Command:
		var reply route.Reply
		err := s.decideAnswered(ctx, root, op, func(_ *tree.Tree, r tree.Reply) {
			reply = route.ReplyOf(r)
		})
		return reply, err
	default:
		return nil, fmt.Errorf("%w: it is an operation that no other process asks for",
			ErrNotRecorded)
	}
}

// decideAnswered has the owner of a tree decide a command, with the answers of the functions of the
// Config that it asks for.
func (s *Supervisor) decideAnswered(
	ctx context.Context, root session.Key, cmd tree.Command, read func(*tree.Tree, tree.Reply),
) error {
	var of session.Key
	answers := new(tree.Answers)
	switch cmd := cmd.(type) {
	case *tree.Post:
		of, answers = cmd.To, &cmd.Answers
	case *tree.Bind:
		of, answers = cmd.Run, &cmd.Answers
	}
	for {
		var err error
		if post, ok := cmd.(*tree.Post); ok && post.Asks {
			err = s.postKept(ctx, post, read)
		} else {
			err = s.doHere(ctx, root, cmd, read)
		}
		if err == nil {
			return nil
		}
		if err = s.answerAll(ctx, of, err, answers); err != nil {
			return err
		}
	}
}

// performSpawn admits a child for another process, or begins a deposit.
func (s *Supervisor) performSpawn(
	ctx context.Context, root session.Key, cmd *tree.Spawn, again bool,
) (RunInfo, error) {
	if again && cmd.Key == "" {
		info, known, err := s.runOf(ctx, root, cmd.Parent, RunID(cmd.ID))
		if known || err != nil {
			return info, err
		}
	}
	return withShell(s, root, func(sh *treeShell) (RunInfo, error) {
		call := newSpawnCall()
		call.cmd = *cmd
		return sh.admit(ctx, call, nil)
	})
}

// performRest decides what becomes of runs that a wait in another process leaves over.
func (s *Supervisor) performRest(
	ctx context.Context, root session.Key, op *route.Rest,
) ([]wireRun, error) {
	refs := make([]RunRef, min(len(op.Sessions), len(op.Runs)))
	for i := range refs {
		refs[i] = RunRef{op.Sessions[i], RunID(op.Runs[i])}
	}
	infos, err := withShell(s, root, func(sh *treeShell) ([]RunInfo, error) {
		return sh.waitFor(ctx, refs, JoinOptions{Within: -1, Rest: Rest(op.Rest)})
	})
	list := make([]wireRun, len(infos))
	for i := range infos {
		list[i].take(infos[i])
	}
	return list, err
}

// waitThere waits for runs of a tree of another process, and returns how each of them stands then.
// It sets the ids of refs that are not named.
func (s *Supervisor) waitThere(
	ctx context.Context, root session.Key, refs []RunRef, opt JoinOptions,
) (infos []RunInfo, err error) {
	sh := newTreeShell(s, root) // of this wait alone
	w := &waiter{members: make(map[RunRef]bool, len(refs)), ready: make(chan struct{})}
	w.join.Need = opt.need()
	var limit <-chan time.Time
	if opt.Within != 0 {
		timer := time.NewTimer(opt.Within)
		defer timer.Stop()
		limit = timer.C
	}
	begun, by, left := false, turnOf(ctx), 0
	var missing error
	defer by.pause()()
	freeze := func(t *tree.Tree) {
		t.Followed(func(r *tree.Run, of tree.Past) { w.freeze(runInfoOf(t, r, &of)) })
	}
	err = s.follow(ctx, root, limit, freeze, func(t *tree.Tree) bool {
		if !begun {
			begun, missing = true, w.begin(t, refs, by, opt.Within == 0)
		}
		if missing != nil {
			return true
		}
		w.recount(t)
		left = int(w.join.Left)
		infos = sh.infosOf(t, w, refs, func(i int) *tree.Run { return t.Run(refs[i].Session) })
		return w.finished
	})
	switch {
	case missing != nil:
		return nil, missing
	case err != nil || left == 0 || opt.rest() == tree.RestKeep:
		return infos, err
	}
	op := &route.Rest{Rest: opt.rest()}
	for _, ref := range refs {
		op.Sessions, op.Runs = append(op.Sessions, ref.Session), append(op.Runs, string(ref.Run))
	}
	var list []wireRun
	_, err = s.cluster.route(ctx, root, op, session.ErrOwned, &list, func(bool) (err error) {
		list, err = s.performRest(ctx, root, op)
		return err
	})
	if err != nil {
		return nil, repeatable(err, repeatAsIs)
	}
	infos = make([]RunInfo, len(list))
	for i := range list {
		infos[i] = list[i].run()
	}
	return infos, nil
}

// followEvery is how often the journal of a tree of another process is read by a call that waits.
const followEvery = time.Second

// follow waits until something holds for a tree of another process, as its journal has it, or limit
// says that the time is up: then it reads once more, and returns nil. It calls each after every
// fact, unless that is nil. A journal that fails is waited for.
func (s *Supervisor) follow(
	ctx context.Context, root session.Key, limit <-chan time.Time,
	each func(*tree.Tree), holds func(*tree.Tree) bool,
) error {
	v := viewer{root: root, options: s.ownerConfig.Options, each: each}
	v.resetTree()
	again := time.NewTimer(followEvery)
	defer again.Stop()
	for over := false; ; {
		err := s.readOn(ctx, &v)
		switch {
		case err == nil && (holds(v.tree) || over):
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && (over || !owner.Recovers(err)):
			return fmt.Errorf("%w: %w", ErrUnreadable, err)
		}
		again.Reset(followEvery)
		select {
		case <-again.C:
		case <-limit:
			over = true
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.closed:
			return ErrShutdown
		}
	}
}

// readOn folds what has been added to a journal since v was there. What does not follow, as after a
// repair, is read from the beginning.
func (s *Supervisor) readOn(ctx context.Context, v *viewer) error {
	open, cancel := s.untilClosed(ctx)
	defer cancel()
	if v.last > 0 {
		err := v.readAfter(s.reads.Read(open, v.root, v.last))
		if _, spoiled := errors.AsType[*JournalError](err); !spoiled {
			return err
		}
	}
	*v = viewer{root: v.root, options: v.options, each: v.each}
	return v.read(s.reads.Read(open, v.root, 0))
}

const (
	// routeAgain is how long a caller waits before it asks again for a tree that moves from one
	// process to another. The pause doubles up to routeAtMost.
	routeAgain  = 20 * time.Millisecond
	routeAtMost = time.Second
)

// route has an operation done by the process that has the tree, after this one was told with err
// that it is not it. If no process has the tree, here does it in this process. With again it is
// not known whether it was done before. It reports whether another process has answered, whose
// value is in value then; also beside an error.
//
// It goes on for as long as the tree moves from one process to another, until ctx ends. The error
// is ErrUnconfirmed then if the operation may have been done.
func (c *cluster) route(
	ctx context.Context, root session.Key, op route.Op, err error, value any,
	here func(again bool) error,
) (there bool, _ error) {
	id, again := session.NewID(), false
	waited := false // for what comes of the operation, so that it may be on record
	maybe := func(err error) error {
		if again {
			return maybeDone(err)
		}
		return err
	}
	for pause := routeAgain; ; pause = min(2*pause, routeAtMost) {
		if again = again || errors.Is(err, ErrUnconfirmed); again && !route.Repeats(op) {
			return false, unconfirmedOf(root, err)
		}
		waited = waited || owner.IsGivenUp(err)
		answer, err2 := c.call(ctx, session.Request{ID: id, Root: root}, op, again)
		switch err = err2; {
		case errors.Is(err, session.ErrNoOwner) && waited:
			// Another process is to have the tree, and not this one, which ends.
			if err := c.pauseRoute(ctx, root, pause, true); err != nil {
				return false, err
			}
		case errors.Is(err, session.ErrNoOwner):
		case errors.Is(err, session.ErrUnanswered):
			again = true
		case err != nil:
			return false, maybe(err)
		default:
			err = wireErrors.Decode(answer.Err)
			if !isOwned(err) && !errors.Is(err, ErrShutdown) {
				_ = json.Unmarshal(answer.Value, value) // of an error it may be null
				return true, maybe(err)
			}
			id = session.NewID() // that answer is known under the id
			again = again || errors.Is(err, ErrUnconfirmed)
			if err := c.pauseRoute(ctx, root, pause, again); err != nil {
				return false, err
			}
		}
		if again && !route.Repeats(op) {
			return false, unconfirmedOf(root, err)
		}
		if err = here(again); !c.sup.elsewhere(ctx, root, err) {
			return false, maybe(err)
		}
	}
}

// A maybeDoneError is the error of an operation that was not recorded, and that may have been
// before.
type maybeDoneError struct{ err error }

// maybeDone returns the error of an operation that may have been done before by another process:
// what was not recorded this time is not known then.
func maybeDone(err error) error {
	if !errors.Is(err, ErrNotRecorded) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnconfirmed, &maybeDoneError{err})
}

// Error says why it was not recorded this time.
func (e *maybeDoneError) Error() string {
	return strings.TrimPrefix(e.err.Error(), ErrNotRecorded.Error()+": ")
}

// Is does not find ErrNotRecorded.
func (e *maybeDoneError) Is(target error) bool {
	return target != ErrNotRecorded && errors.Is(e.err, target)
}

// As finds what is in the error.
func (e *maybeDoneError) As(target any) bool { return errors.As(e.err, target) }

// unconfirmedOf returns the error of an operation that may have been done by a process that does
// not have the tree any more.
func unconfirmedOf(root session.Key, err error) error {
	if errors.Is(err, ErrUnconfirmed) {
		return err
	}
	return fmt.Errorf("%w: %q: %w", ErrUnconfirmed, root, err)
}

// pauseRoute waits before the next attempt.
func (c *cluster) pauseRoute(
	ctx context.Context, root session.Key, pause time.Duration, again bool,
) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	var cause error
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		cause = context.Cause(ctx)
	case <-c.sup.closed:
		cause = ErrShutdown
	}
	if again {
		return fmt.Errorf("%w: %q: %w", ErrUnconfirmed, root, cause)
	}
	return fmt.Errorf("%w: %q: %w", ErrNotRecorded, root, cause)
}

// overRequest refuses an operation whose request has so many bytes, with the error of the process
// that has the tree: texts that take so many are over MaxCommand.
func overRequest(limits Limits, op route.Op, size int) error {
	cmd, _ := op.(tree.Command)
	switch op := op.(type) {
	case *route.PostAndWait:
		cmd = op.Post
	case *route.SendOut:
		cmd = &op.Send
	}
	if err := limits.Check(cmd); err != nil {
		return err
	}
	return &LimitError{
		Field: "request to another process", Size: size, Limit: session.RequestLimit, Unit: "bytes",
		Path: "session.RequestLimit",
	}
}

// call asks the process that has a tree, and returns its answer. The error is one of
// session.ErrNoOwner and session.ErrUnanswered, or it says what became of the operation.
func (c *cluster) call(
	ctx context.Context, r session.Request, op route.Op, again bool,
) (answer route.Answer, err error) {
	asked := route.Request{Op: op, Again: again}
	if end, ok := ctx.Deadline(); ok {
		asked.Left = max(time.Until(end), 1)
	}
	if r.Body, err = route.EncodeRequest(asked); err != nil {
		return answer, err
	}
	if len(r.Body) > session.RequestLimit { // a command within the Limits takes less
		return answer, overRequest(c.sup.cfg.Limits, op, len(r.Body))
	}
	if err := r.Validate(); err != nil {
		return answer, fmt.Errorf("spawn: asking the process that has %q: %w", r.Root, err)
	}
	open, cancel := c.sup.untilClosed(ctx)
	defer cancel()
	var body []byte
	err = contained(func() (err error) {
		body, err = c.owners.Call(open, r)
		return err
	})
	switch {
	case err == nil:
		answer, err = route.DecodeAnswer(body)
	case errors.Is(err, session.ErrNoOwner), errors.Is(err, session.ErrUnanswered):
		return answer, err
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case open.Err() != nil:
		err = ErrShutdown
	}
	if err != nil {
		err = fmt.Errorf("%w: asking the process that has %q: %w", ErrUnconfirmed, r.Root, err)
	}
	return answer, err
}
