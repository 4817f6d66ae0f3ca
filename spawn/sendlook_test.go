package spawn_test

import (
	"context"
	"fmt"
	"io/fs"
	"iter"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// muteJournal is a journal of which one method misbehaves over one log while it is sick.
type muteJournal struct {
	session.Journal
	root   session.Key
	method string
	act    func(context.Context) error
	sick   atomic.Bool
}

// in misbehaves, if the method is to.
func (j *muteJournal) in(ctx context.Context, method string, root session.Key) error {
	if root == j.root && method == j.method && j.sick.Load() {
		return j.act(ctx)
	}
	return nil
}

func (j *muteJournal) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (session.Seq, error) {
	if err := j.in(ctx, "Append", root); err != nil {
		return 0, err
	}
	return j.Journal.Append(ctx, root, after, b)
}

func (j *muteJournal) Read(
	ctx context.Context, root session.Key, after session.Seq,
) iter.Seq2[session.Entry, error] {
	return func(yield func(session.Entry, error) bool) {
		if err := j.in(ctx, "Read", root); err != nil {
			yield(session.Entry{}, err)
			return
		}
		for e, err := range j.Journal.Read(ctx, root, after) {
			if !yield(e, err) {
				return
			}
		}
	}
}

// errSecretPath is an error of a store that no other tree is to learn.
var errSecretPath = &fs.PathError{Op: "open", Path: "/srv/secret/log", Err: fs.ErrPermission}

// sickRoom is a top-level session beside the main ones.
var sickRoom = session.Must(session.GroupKey("other", "irc", "room"))

// A sickCase is a receiver whose journal misbehaves while a message is sent to it.
type sickCase struct {
	method, how      string
	cold, turn, heal bool
	within           time.Duration
}

// A sendFunc is SendOut of a caller or a turn.
type sendFunc func(
	context.Context, session.Key, spawn.Incoming, time.Duration,
) (spawn.Receipt, spawn.Reply, error)

// act returns what the journal does until free is closed.
func (c *sickCase) act(free <-chan struct{}) func(context.Context) error {
	return map[string]func(context.Context) error{
		"hangs": func(context.Context) error { <-free; return nil },
		"hangs with its ctx": func(ctx context.Context) error {
			select {
			case <-ctx.Done():
			case <-free:
			}
			return ctx.Err()
		},
		"fails":              func(context.Context) error { return errSecretPath },
		"panics":             func(context.Context) error { panic(errSecretPath) },
		"ends its goroutine": func(context.Context) error { runtime.Goexit(); return nil },
	}[c.how]
}

// testSick sends a message to a receiver whose journal misbehaves.
func (c *sickCase) testSick(t *testing.T) {
	free := make(chan struct{})
	record := spawntest.NewRecorder(session.NewMemory().Journal)
	j := &muteJournal{Journal: record, root: sickRoom, method: c.method}
	j.act = c.act(free)
	r, sent := new(readers), make(chan func(), 1)
	send := func(ctx context.Context, out sendFunc) {
		begun := time.Now()
		receipt, _, err := out(ctx, sickRoom, spawn.Incoming{ID: "1", Text: "one"}, c.within)
		took := time.Since(begun)
		sent <- func() {
			require.Equal(t, spawn.Receipt{Session: sickRoom, Pending: true}, receipt, "%v", err)
			require.LessOrEqual(t, took, time.Second+c.within)
			if c.within > 0 {
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.NotContains(t, err.Error(), "secret")
			} else {
				require.NoError(t, err)
			}
		}
	}
	s := openSupervisor(t, spawn.Config{
		Store: &session.Store{Journal: j},
		Runner: runnerFunc(func(
			ctx context.Context, tn *spawn.TurnInput,
		) (spawn.TurnResult, error) {
			if tn.Session.Key == topKey {
				send(ctx, tn.SendOut)
				return spawn.TurnResult{Reply: "sent"}, nil
			}
			return r.RunTurn(ctx, tn)
		}),
	})
	post := func(k session.Key, words string) error {
		return errorOf(s.Post(t.Context(), k, k, spawn.Incoming{Text: words}))
	}
	require.NoError(t, post(sickRoom, "hi"))
	if time.Sleep(time.Minute); c.cold {
		time.Sleep(time.Hour) // nothing of the tree is in memory
	}
	j.sick.Store(true)
	busy := make(chan error, 1)
	if c.method == "Append" { // the owner is busy
		go func() { busy <- post(sickRoom, "busy") }()
		synctest.Wait()
	}
	if c.turn {
		require.NoError(t, post(topKey, "go"))
	} else {
		send(t.Context(), func(
			ctx context.Context, to session.Key, m spawn.Incoming, within time.Duration,
		) (spawn.Receipt, spawn.Reply, error) {
			return s.SendOut(ctx, topKey, topKey, to, m, within)
		})
	}
	time.Sleep(10 * time.Second)
	require.Len(t, sent, 1, "the call returns within its bound")
	(<-sent)()
	if !c.heal {
		time.Sleep(3 * time.Hour)
	}
	view, err := spawn.View(topKey, record.Read(t.Context(), topKey, 0))
	require.NoError(t, err)
	require.Len(t, view.Outbox, 1)
	require.Equal(t, !c.heal, !view.Outbox[0].Blocked.IsZero())
	j.sick.Store(false)
	close(free)
	if !c.heal {
		time.Sleep(time.Minute)
		blocked, err := s.Blocked(t.Context())
		require.NoError(t, err)
		for i := range blocked { // a call that hung has posted it when it returned
			require.Equal(t, "one", blocked[i].Sent.Text)
			require.NoError(t, s.Retry(t.Context(), blocked[i].Key))
		}
	}
	time.Sleep(time.Hour)
	told := slices.DeleteFunc(r.texts(sickRoom), func(s string) bool { return s != "one" })
	require.Len(t, told, 1)
	require.NoError(t, spawntest.AuditSent([]session.Key{topKey, sickRoom}, record.History))
}

// Whatever the journal of a receiver does, a message to it is in the outbox of the sender within a
// second, and the post decides what becomes of it.
func TestSendOutToATreeThatDoesNotAnswer(t *testing.T) {
	for _, method := range []string{"Read", "Append"} {
		for _, how := range []string{
			"hangs", "hangs with its ctx", "fails", "panics", "ends its goroutine",
		} {
			for i := range 16 {
				c := &sickCase{
					method: method, how: how, cold: i&1 > 0, turn: i&2 > 0, heal: i&4 > 0,
					within: time.Duration(i>>3) * 5 * time.Second,
				}
				if method == "Read" && !c.cold {
					continue // what is in memory is not read
				}
				if !playsOneOf(3) {
					continue
				}
				name := fmt.Sprintf("%s %s/cold=%t,turn=%t,heal=%t,within=%v",
					method, how, c.cold, c.turn, c.heal, c.within)
				t.Run(name, func(t *testing.T) { synctest.Test(t, c.testSick) })
			}
		}
	}
}
