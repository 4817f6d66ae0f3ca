//go:build unix

package agent_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

// A plant puts something in the place of a file or of a directory that was moved aside.
type plant func(t *testing.T, path, aside string)

// unsafePlants are what a transcript, or a directory of transcripts, must not be.
func unsafePlants() map[string]plant {
	plants := map[string]plant{
		"a link": func(t *testing.T, path, aside string) {
			require.NoError(t, os.Symlink(aside, path))
		},
		"a link to nothing": func(t *testing.T, path, aside string) {
			require.NoError(t, os.Symlink(aside+" none", path))
		},
		"a link to itself": func(t *testing.T, path, _ string) {
			require.NoError(t, os.Symlink(path, path))
		},
		"a pipe": func(t *testing.T, path, _ string) {
			require.NoError(t, syscall.Mkfifo(path, 0o600))
		},
	}
	if os.Geteuid() == 0 {
		plants["a device"] = func(t *testing.T, path, _ string) {
			if err := syscall.Mknod(path, syscall.S_IFCHR|0o600, 1<<8|5); err != nil { // /dev/zero
				t.Skip(err)
			}
		}
	}
	return plants
}

// unsafeFiles are what only a file must not be.
func unsafeFiles() map[string]plant {
	copyOf := func(t *testing.T, path, aside string) {
		b, err := os.ReadFile(aside)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, b, 0o600))
	}
	plants := map[string]plant{
		"a directory": func(t *testing.T, path, _ string) {
			require.NoError(t, os.Mkdir(path, 0o700))
		},
		"a file with two names": func(t *testing.T, path, aside string) {
			require.NoError(t, os.Link(aside, path))
		},
	}
	if os.Geteuid() == 0 {
		plants["a file of another user"] = func(t *testing.T, path, aside string) {
			copyOf(t, path, aside)
			require.NoError(t, os.Chown(path, 4711, 4711))
		}
		return plants
	}
	plants["a file without permissions"] = func(t *testing.T, path, aside string) {
		copyOf(t, path, aside)
		require.NoError(t, os.Chmod(path, 0))
	}
	return plants
}

// A chats is a bot with two chats on a directory.
type chats struct {
	dir     string
	store   *session.Store
	rt      *agent.Runtime
	log     bytes.Buffer
	mu      sync.Mutex
	replies map[session.Key][]agent.Reply
}

// say posts to a chat and returns what it replies.
func (c *chats) say(t *testing.T, to session.Key, text string) agent.Reply {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	require.NoError(t, errorOf(c.rt.Session(to).Post(ctx, agent.Incoming{Text: text})))
	require.NoError(t, c.rt.Session(to).Idle(ctx), "the chat does not stall")
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.replies[to])
	require.Positive(t, n)
	return c.replies[to][n-1]
}

// live opens the bot, lets it live, and closes it.
func (c *chats) live(t *testing.T, live func()) {
	t.Helper()
	var err error
	c.store, err = dirstore.Open(c.dir)
	require.NoError(t, err)
	cfg := configWith(func(_ context.Context, tn *agent.Turn) (agent.Result, error) {
		return agent.Result{Text: "answer to " + tn.Messages[len(tn.Messages)-1].Text}, nil
	})
	cfg.Store, cfg.Logger = c.store, slog.New(slog.NewTextHandler(&c.log, nil))
	cfg.Reply = func(_ context.Context, d agent.Delivery) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.replies[d.To] = append(c.replies[d.To], *d.Reply)
		return nil
	}
	c.rt, err = agent.Open(t.Context(), cfg)
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- c.rt.Run(context.WithoutCancel(t.Context())) }()
	live()
	require.NoError(t, c.rt.Shutdown(t.Context()))
	require.NoError(t, <-done)
	require.NoError(t, c.store.Close())
}

// A transcript, or a directory of transcripts, that is something else costs the turns that need it,
// and no more: the turn fails, people are told, the event and the log say why, Health reports it,
// and other chats go on. The chat goes on where it was once a person has put the file back.
func TestUnsafeTranscriptFailsTheTurn(t *testing.T) {
	for at, plants := range map[string]map[string]plant{
		"sessions/main/FILE": unsafePlants(), "sessions/main/FILE alone": unsafeFiles(),
		"sessions/main": unsafePlants(), "sessions": unsafePlants(),
	} {
		for name, plant := range plants {
			t.Run(name+" at "+at, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { unsafeTranscript(t, at, plant) })
			})
		}
	}
}

func unsafeTranscript(t *testing.T, at string, plant plant) {
	c := &chats{dir: t.TempDir(), replies: make(map[session.Key][]agent.Reply)}
	chat, other := session.Must(session.MainKey("main")), session.Must(session.MainKey("ops"))
	c.live(t, func() {
		require.Equal(t, "answer to one", c.say(t, chat, "one").Text)
		time.Sleep(2 * time.Second) // until the lines are in their file
		files, err := filepath.Glob(filepath.Join(c.dir, "sessions", "main", "*.jsonl"))
		require.NoError(t, err)
		require.Len(t, files, 1)
		path, aside := files[0], filepath.Join(t.TempDir(), "aside")
		if !strings.Contains(at, "FILE") {
			path = filepath.Join(c.dir, filepath.FromSlash(at))
		}
		require.NoError(t, os.Rename(path, aside))
		plant(t, path, aside)

		var failed []agent.TreeEvent
		watch, stop := context.WithCancel(t.Context())
		events := c.rt.Session(chat).Events(watch)
		var watching sync.WaitGroup
		watching.Go(func() {
			for e, err := range events {
				if err != nil {
					t.Error(err)
				}
				if e.Error != "" {
					failed = append(failed, e)
				}
			}
		})
		synctest.Wait()
		reply := c.say(t, chat, "two")
		synctest.Wait()
		stop()
		watching.Wait()
		assert.True(t, reply.Failed)
		assert.Contains(t, reply.Text, "Sorry")
		require.Len(t, failed, 1)
		assert.Contains(t, failed[0].Error, path)
		assert.Contains(t, failed[0].Error, "is refused")
		assert.Contains(t, c.log.String(), path)
		assert.NotContains(t, c.log.String(), "cannot be reached", "it is not tried again")
		var refused *dirstore.UnsafeError
		require.ErrorAs(t, c.store.Health(t.Context()), &refused)
		assert.Equal(t, path, refused.Path)
		if at != "sessions" {
			assert.Equal(t, "answer to hello", c.say(t, other, "hello").Text)
		}
		require.ErrorIs(t, c.store.Health(t.Context()), session.ErrUnsafe)
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Contains(t, c.log.String(), "the store is not healthy")

		require.NoError(t, os.RemoveAll(path))
		require.NoError(t, os.Rename(aside, path))
		require.NoError(t, c.store.Health(t.Context()))
		require.Equal(t, "answer to three", c.say(t, chat, "three").Text)
		require.NoError(t, c.store.Health(t.Context()))
	})
	c.live(t, func() { require.Equal(t, "answer to four", c.say(t, chat, "four").Text) })
}

// The first turn of a chat, and a sub-agent, whose directory is something else: the turn fails, the
// requester is told, and the next one works when the cause is removed.
func TestUnsafeDirectoryOfANewSession(t *testing.T) {
	for name, plant := range unsafePlants() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &chats{dir: t.TempDir(), replies: make(map[session.Key][]agent.Reply)}
				chat := session.Must(session.MainKey("ops"))
				aside := filepath.Join(t.TempDir(), "aside")
				require.NoError(t, os.Mkdir(aside, 0o700))
				c.live(t, func() {
					path := filepath.Join(c.dir, "sessions", "ops")
					plant(t, path, aside)
					require.True(t, c.say(t, chat, "one").Failed)
					child, err := agent.Spawn[string](
						t.Context(), c.rt.Session(chat), agent.Task{Text: "report"},
					)
					require.NoError(t, err)
					_, err = child.Wait(t.Context())
					require.ErrorContains(t, err, "is refused")
					require.ErrorIs(t, c.store.Health(t.Context()), session.ErrUnsafe)
					entries, err := os.ReadDir(aside)
					require.NoError(t, err)
					require.Empty(t, entries, "nothing was written through a link")
					require.NoError(t, os.Remove(path))
					require.Equal(t, "answer to two", c.say(t, chat, "two").Text)
					require.NoError(t, c.store.Health(t.Context()))
				})
			})
		})
	}
}
