package spawn_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// What looks at a receiver, or at all trees, waits no longer for a journal that ignores its ctx
// than the ctx of the call, or its Within, says. Nothing is recorded then.
func TestLooksEndWithTheirBound(t *testing.T) {
	model := spawn.SendOptions{ByModel: true}
	waits := model
	waits.Within = 3 * time.Second
	m := spawn.Incoming{ID: "1", Text: "one"}
	for name, c := range map[string]struct {
		call    func(context.Context, *spawn.Supervisor) error
		command bool // of which nothing is recorded
		within  bool // the bound is not that of ctx
	}{
		"Send": {func(ctx context.Context, s *spawn.Supervisor) error {
			return errorOf(s.Send(ctx, sickRoom, topKey, sickRoom, m, model))
		}, true, false},
		"SendAndWait": {func(ctx context.Context, s *spawn.Supervisor) error {
			_, _, err := s.SendAndWait(ctx, sickRoom, topKey, sickRoom, m, model)
			return err
		}, true, false},
		"SendAndWait within": {func(ctx context.Context, s *spawn.Supervisor) error {
			_, _, err := s.SendAndWait(ctx, sickRoom, topKey, sickRoom, m, waits)
			return err
		}, true, true},
		"Blocked": {func(ctx context.Context, s *spawn.Supervisor) error {
			return errorOf(s.Blocked(ctx))
		}, false, false},
		// What SendOut does for a message whose arrival it has missed: no history of two trees
		// has it do so at will.
		"SendOut that has missed the arrival": {func(
			ctx context.Context, s *spawn.Supervisor,
		) error {
			return spawn.AnswerWithin(ctx, s, topKey, sickRoom, m, waits.Within)
		}, false, true},
	} {
		for _, method := range []string{"Read", "Append"} {
			if method == "Append" && c.within && c.command {
				continue // the owner is asked after the look, and ctx ends that
			}
			t.Run(name+" "+method, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					testLook(t, method, c.within, c.command, c.call)
				})
			})
		}
	}
}

// A tree whose journal does not answer holds no call up that reads all trees, also without a
// deadline, and hides no other tree.
func TestTreeThatHangsHidesNoOther(t *testing.T) {
	const limit = 10 * time.Second
	m := spawn.Incoming{Text: "hi"}
	wellKey := session.Must(session.MainKey("zeta")) // it is read after sickRoom
	for name, call := range map[string]func(context.Context, *spawn.Supervisor) (bool, error){
		"Sessions": func(ctx context.Context, s *spawn.Supervisor) (bool, error) {
			list, err := s.Sessions(ctx, spawn.SessionQuery{})
			return len(list) == 1 && list[0].Key == wellKey, err
		},
		"Usage": func(ctx context.Context, s *spawn.Supervisor) (bool, error) {
			report, err := s.Usage(ctx, spawn.UsageQuery{By: []spawn.UsageBy{spawn.UsageBySession}})
			return len(report.Rows) == 1 && report.Rows[0].Session == wellKey, err
		},
		"Blocked": func(ctx context.Context, s *spawn.Supervisor) (bool, error) {
			list, err := s.Blocked(ctx)
			return len(list) == 1 && list[0].Reply.From == wellKey, err
		},
		"Retry": func(ctx context.Context, s *spawn.Supervisor) (bool, error) {
			err := s.Retry(ctx, "none")
			return !errors.Is(err, spawn.ErrNotFound), err
		},
	} {
		for _, method := range []string{"Read", "Append"} {
			t.Run(name+" "+method, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					free, used := make(chan struct{}), spawn.TurnResult{Reply: "x"}
					used.Result.Usage.Output = 1
					defer close(free)
					j := &muteJournal{
						Journal: session.NewMemory().Journal, root: sickRoom, method: method,
						act: (&sickCase{how: "hangs"}).act(free),
					}
					s := openSupervisor(t, spawn.Config{
						Store: &session.Store{Journal: j}, Replies: true,
						Runner: runnerFunc(func(
							context.Context, *spawn.TurnInput,
						) (spawn.TurnResult, error) {
							return used, nil
						}),
						Deliver: func(_ context.Context, d spawn.Delivery) error {
							if d.Reply.From == wellKey {
								return spawn.Permanent(nil)
							}
							return nil
						},
					})
					for _, key := range []session.Key{sickRoom, wellKey} {
						_, err := s.Post(t.Context(), key, key, m)
						require.NoError(t, err)
					}
					time.Sleep(2 * time.Hour) // nothing is in memory
					j.sick.Store(true)
					busy := make(chan error, 1)
					go func() {
						if method == "Append" { // the owner is busy
							busy <- errorOf(s.Post(t.Context(), sickRoom, sickRoom, m))
						}
					}()
					synctest.Wait()
					begun := time.Now()
					whole, err := call(t.Context(), s)
					require.Equal(t, limit, time.Since(begun))
					require.ErrorIs(t, err, spawn.ErrUnreadable)
					require.ErrorContains(t, err, sickRoom.String())
					require.True(t, whole)
					j.sick.Store(false)
				})
			})
		}
	}
}

func testLook(
	t *testing.T, method string, within, command bool,
	call func(context.Context, *spawn.Supervisor) error,
) {
	free, r := make(chan struct{}), new(readers)
	j := &muteJournal{Journal: session.NewMemory().Journal, root: sickRoom, method: method}
	j.act = (&sickCase{how: "hangs"}).act(free)
	s := openSupervisor(t, spawn.Config{
		Store: &session.Store{Journal: j}, Runner: runnerFunc(r.RunTurn),
	})
	post := func() error {
		return errorOf(s.Post(t.Context(), sickRoom, sickRoom, spawn.Incoming{Text: "hi"}))
	}
	require.NoError(t, post())
	time.Sleep(2 * time.Hour) // nothing of the tree is in memory
	busy := make(chan error, 1)
	if method == "Append" { // nor is it known to anything but an owner that hangs
		j.sick.Store(true)
		go func() { busy <- post() }()
		synctest.Wait()
	}
	j.sick.Store(true)
	bound := 7 * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	if within {
		bound = 3 * time.Second
	}
	returned := make(chan error, 1)
	go func() { returned <- call(ctx, s) }()
	time.Sleep(bound + time.Second)
	select {
	case err := <-returned:
		require.ErrorIs(t, err, context.DeadlineExceeded)
		if command && method == "Read" {
			require.ErrorIs(t, err, spawn.ErrNotRecorded)
		}
	default:
		t.Error("it has not returned")
	}
	close(free)
	j.sick.Store(false)
	time.Sleep(time.Hour)
	if method == "Read" && command {
		require.NotContains(t, r.texts(sickRoom), "one")
	}
}
