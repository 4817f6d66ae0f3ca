package thread

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/sessiontest"
	"github.com/offshoot-sdk/offshoot/spawn"
)

var conversation = session.ConversationRoot(session.Route{Channel: "c", To: "1"})

// A claim is waited for while another process has it: until that gives it up, or its lease is over.
func TestAwaitClaim(t *testing.T) {
	for _, gone := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			engine := sessiontest.NewCluster(sessiontest.ClusterOptions{})
			a, b := engine.Open("a"), engine.Open("b")
			first, err := AwaitClaim(t.Context(), a.Owners, conversation)
			require.NoError(t, err)
			short, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err = AwaitClaim(short, b.Owners, conversation)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, spawn.ErrNotRecorded)
			if gone {
				engine.Cut(a)
			} else {
				time.AfterFunc(time.Second, func() { Release(t.Context(), a.Owners, first) })
			}
			begun := time.Now()
			second, err := AwaitClaim(t.Context(), b.Owners, conversation)
			require.NoError(t, err)
			require.Greater(t, second.Epoch, first.Epoch)
			most := 2 * time.Second
			if gone {
				most = session.DefaultLease + time.Second
			}
			require.LessOrEqual(t, time.Since(begun), most)
		})
	}
}

// failing are Owners that fail, or panic, so many times.
type failing struct {
	session.Owners
	left, calls int
	panics      bool
	err         error
}

func (f *failing) fail() error {
	f.calls++
	if f.left == 0 {
		return nil
	}
	f.left--
	if f.panics {
		panic(f.err)
	}
	return f.err
}

func (f *failing) Claim(ctx context.Context, root session.Key) (session.Claim, error) {
	if err := f.fail(); err != nil {
		return session.Claim{}, err
	}
	return f.Owners.Claim(ctx, root)
}

func (f *failing) Release(ctx context.Context, c session.Claim) error {
	if err := f.fail(); err != nil {
		return err
	}
	return f.Owners.Release(ctx, c)
}

// An engine that fails is asked again for a moment. One that is closed is not.
func TestAwaitClaimOfAnEngineThatFails(t *testing.T) {
	for name, c := range map[string]struct {
		failing
		ok bool
	}{
		"for a moment": {failing{left: 3, err: errors.New("away")}, true},
		"panics":       {failing{left: 3, err: errors.New("away"), panics: true}, true},
		"for long":     {failing{left: 100, err: errors.New("away")}, false},
		"closed":       {failing{left: 1, err: session.ErrClosed}, false},
		"replaced":     {failing{left: 1, err: session.ErrReplaced}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				engine := sessiontest.NewCluster(sessiontest.ClusterOptions{})
				f := c.failing
				f.Owners = engine.Open("a").Owners
				begun := time.Now()
				_, err := AwaitClaim(t.Context(), &f, conversation)
				require.Less(t, time.Since(begun), 5*time.Second)
				if c.ok {
					require.NoError(t, err)
					return
				}
				require.ErrorIs(t, err, spawn.ErrNotRecorded)
				require.ErrorIs(t, err, c.err)
			})
		})
	}
}

// A claim is given up as often as it takes, and once more when the process has ended.
func TestRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := sessiontest.NewCluster(sessiontest.ClusterOptions{})
		a, b := engine.Open("a").Owners, engine.Open("b").Owners
		c, err := Claim(t.Context(), a, conversation)
		require.NoError(t, err)
		Release(t.Context(), &failing{Owners: a, left: 100, err: errors.New("away")}, c)
		_, err = Claim(t.Context(), b, conversation)
		require.NoError(t, err)
		over, cancel := context.WithCancel(t.Context())
		cancel()
		f := &failing{Owners: a, left: 100, err: errors.New("away")}
		Release(over, f, c)
		require.Equal(t, 1, f.calls)
	})
}
