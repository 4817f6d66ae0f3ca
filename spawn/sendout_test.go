package spawn_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

var (
	otherTree = session.Must(session.MainKey("other"))
	thirdTree = session.Must(session.MainKey("third"))
)

// rootsDown is a journal that takes nothing of some trees while they are down.
type rootsDown struct {
	session.Journal
	mu   sync.Mutex
	down map[session.Key]bool
}

func (j *rootsDown) set(root session.Key, down bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.down == nil {
		j.down = make(map[session.Key]bool)
	}
	j.down[root] = down
}

func (j *rootsDown) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (session.Seq, error) {
	j.mu.Lock()
	down := j.down[root]
	j.mu.Unlock()
	if down {
		return 0, errors.New("disk full")
	}
	return j.Journal.Append(ctx, root, after, b)
}

// readers is a Runner that notes what the sessions of other trees are told, and answers it.
type readers struct {
	mu   sync.Mutex
	told map[session.Key][]spawn.Input
}

func (r *readers) RunTurn(_ context.Context, t *spawn.TurnInput) (spawn.TurnResult, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.told == nil {
		r.told = make(map[session.Key][]spawn.Input)
	}
	r.told[t.Session.Key] = append(r.told[t.Session.Key], t.Inputs...)
	return spawn.TurnResult{Reply: "re " + t.Inputs[0].Text}, nil
}

// texts returns what a session was told, in order.
func (r *readers) texts(k session.Key) (list []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, in := range r.told[k] {
		list = append(list, in.Text)
	}
	return list
}

// auditSent audits the trees of a store over what they have written to each other.
func auditSent(t *testing.T, history func(session.Key) iter.Seq2[session.Entry, error]) {
	t.Helper()
	require.NoError(t, spawntest.AuditSent(treesOfLetters, history))
}

// sendOut sends a message and does not wait.
func sendOut(t *testing.T, s *spawn.Supervisor, to session.Key, id, words string) {
	t.Helper()
	m := spawn.Incoming{ID: id, Text: words}
	receipt, _, err := s.SendOut(t.Context(), topKey, topKey, to, m, 0)
	require.NoError(t, err)
	require.Equal(t, spawn.Receipt{Session: to, Pending: true}, receipt)
}

// While the journal of one receiver fails, what is sent to it is durable at the sender at once,
// waits in order, and holds up nothing else. It is posted once when the journal works again.
func TestSendOutToATreeThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		record := spawntest.NewRecorder(session.NewMemory().Journal)
		j := &rootsDown{Journal: record}
		r := new(readers)
		s := openSupervisor(t, spawn.Config{Store: &session.Store{Journal: j}, Runner: r})
		j.set(otherTree, true)
		begun := time.Now()
		for i := range 3 {
			sendOut(t, s, otherTree, strconv.Itoa(i), fmt.Sprint("hello ", i))
		}
		sendOut(t, s, otherTree, "1", "hello 1")
		sendOut(t, s, thirdTree, "1", "over there")
		require.Equal(t, begun, time.Now(), "no call has waited")
		time.Sleep(time.Minute)
		require.Equal(t, []string{"over there"}, r.texts(thirdTree))
		require.Empty(t, r.texts(otherTree))
		j.set(otherTree, false)
		time.Sleep(10 * time.Minute)
		require.Equal(t, []string{"hello 0", "hello 1", "hello 2"}, r.texts(otherTree))
		require.Equal(t, topKey, r.told[otherTree][0].From)
		sendOut(t, s, otherTree, "1", "hello 1")
		time.Sleep(10 * time.Minute)
		require.Len(t, r.texts(otherTree), 3, "the receiver knows the message")

		j.set(otherTree, true)
		sendOut(t, s, otherTree, "late", "late")
		sendOut(t, s, otherTree, "later", "later")
		time.Sleep(2 * time.Hour)
		blocked, err := s.Blocked(t.Context())
		require.NoError(t, err)
		require.Len(t, blocked, 2)
		m := blocked[0]
		require.Nil(t, m.Completion)
		require.Equal(t, otherTree, m.To)
		require.Equal(t, "late", m.Sent.Text)
		require.Equal(t, topKey, m.Sent.From)
		require.Contains(t, m.Error, "disk full")
		j.set(otherTree, false)
		require.NoError(t, s.Dismiss(t.Context(), m.Key))
		require.NoError(t, s.Retry(t.Context(), blocked[1].Key))
		time.Sleep(time.Minute)
		require.Equal(t, []string{"later"}, r.texts(otherTree)[3:])
		auditSent(t, record.History)
	})
}

// slowly answers after ten seconds.
func slowly(_ context.Context, t *spawn.TurnInput) (spawn.TurnResult, error) {
	time.Sleep(10 * time.Second)
	return spawn.TurnResult{Reply: "re " + t.Inputs[0].Text}, nil
}

// A caller that waits is given the reply, or what is known instead, and the time of the wait is one
// over the delivery and the answer.
func TestSendOutThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &rootsDown{Journal: session.NewMemory().Journal}
		s := openSupervisor(t, spawn.Config{
			Store:  &session.Store{Journal: j},
			Runner: runnerFunc(slowly),
		})
		send := func(
			id string, within time.Duration,
		) (spawn.Receipt, string, time.Duration, error) {
			begun := time.Now()
			m := spawn.Incoming{ID: id, Text: id}
			receipt, reply, err := s.SendOut(t.Context(), topKey, topKey, otherTree, m, within)
			return receipt, reply.Text, time.Since(begun), err
		}
		receipt, said, took, err := send("one", time.Minute)
		require.NoError(t, err)
		require.Equal(t, spawn.Receipt{Session: otherTree}, receipt)
		require.Equal(t, "re one", said)
		require.Equal(t, 10*time.Second, took)

		receipt, _, took, err = send("two", 4*time.Second)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, spawn.Receipt{Session: otherTree}, receipt)
		require.Equal(t, 4*time.Second, took)
		receipt, said, took, err = send("two", time.Minute)
		require.NoError(t, err, "it waits for the turn under way")
		require.True(t, receipt.Existing)
		require.Equal(t, "re two", said)
		require.Equal(t, 6*time.Second, took)
		_, _, _, err = send("two", time.Minute)
		require.ErrorIs(t, err, spawn.ErrAnswered)

		j.set(otherTree, true)
		receipt, _, took, err = send("three", 5*time.Second)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, spawn.Receipt{Session: otherTree, Pending: true}, receipt)
		require.Equal(t, 5*time.Second, took)
		time.AfterFunc(10*time.Second, func() { j.set(otherTree, false) })
		_, said, took, err = send("three", 2*time.Minute)
		require.NoError(t, err, "one attempt fails, and the next one is waited for")
		require.Equal(t, "re three", said)
		require.Less(t, took, time.Minute)

		j.set(otherTree, true)
		receipt, _, took, err = send("four", 2*time.Hour)
		require.ErrorIs(t, err, spawn.ErrUndelivered)
		require.ErrorContains(t, err, "disk full")
		require.True(t, receipt.Pending)
		require.Less(t, took, time.Hour)
		_, _, took, err = send("four", time.Minute)
		require.ErrorIs(t, err, spawn.ErrUndelivered, "the same message is the same entry")
		require.Zero(t, took)
	})
}

// What cannot be sent is refused before anything is recorded.
func TestSendOutRefuses(t *testing.T) {
	nowhere := session.Must(session.GroupKey("other", "irc", "nowhere"))
	synctest.Test(t, func(t *testing.T) {
		s := openSupervisor(t, spawn.Config{Runner: new(readers)})
		child := mustSpawn(t, s, spawn.Request{Task: "work"})
		var input *spawn.InputError
		for name, c := range map[string]struct {
			from, to session.Key
			text     string
			is       error
		}{
			"to a session that never was": {topKey, nowhere, "x", spawn.ErrNotFound},
			"to a sub-agent":              {otherTree, child, "x", nil},
			"to its own tree":             {topKey, topKey, "x", nil},
			"without words":               {topKey, otherTree, " ", nil},
			"from a run that is not there": {
				session.Must(topKey.Child("main", "x")), otherTree, "x", spawn.ErrNotFound,
			},
		} {
			root := topKey
			if c.from == otherTree {
				root = otherTree
			}
			receipt, _, err := s.SendOut(t.Context(), root, c.from, c.to,
				spawn.Incoming{Text: c.text}, time.Minute)
			require.Zero(t, receipt, name)
			if c.is != nil {
				require.ErrorIs(t, err, c.is, name)
				continue
			}
			require.ErrorAs(t, err, &input, name)
		}
	})
}

// A message of a turn is for the people of the turn, and a turn that is over sends none. Two turns
// of two trees that wait for each other hold neither up.
func TestSendOutFromATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ann := policy.Sender{ID: "ann", Channel: "irc"}
		heard := make(map[session.Key][]policy.Sender)
		var mu sync.Mutex
		var kept *spawn.TurnInput
		s := openSupervisor(t, spawn.Config{Runner: runnerFunc(
			func(ctx context.Context, tn *spawn.TurnInput) (spawn.TurnResult, error) {
				mu.Lock()
				heard[tn.Session.Key] = tn.Senders()
				kept = tn
				mu.Unlock()
				if tn.Inputs[0].From.IsValid() {
					return spawn.TurnResult{Reply: "well"}, nil
				}
				to := map[session.Key]session.Key{topKey: otherTree, otherTree: topKey}
				m := spawn.Incoming{ID: "1", Text: "and you?"}
				receipt, _, err := tn.SendOut(ctx, to[tn.Session.Key], m, 20*time.Second)
				if receipt.Session.IsZero() {
					return spawn.TurnResult{}, err
				}
				return spawn.TurnResult{Reply: fmt.Sprint("sent ", err)}, nil
			},
		)})
		said := make(chan string, 2)
		for _, k := range []session.Key{topKey, otherTree} {
			go func() {
				m := spawn.Incoming{ID: "p", Text: "go", Senders: []policy.Sender{ann}}
				r, err := s.PostAndWait(t.Context(), k, k, m)
				said <- fmt.Sprint(r.Text, err)
			}()
		}
		for range 2 {
			require.Contains(t, <-said, "sent ")
		}
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, []policy.Sender{ann}, heard[otherTree])
		_, _, err := kept.SendOut(t.Context(), otherTree, spawn.Incoming{Text: "x"}, 0)
		require.ErrorIs(t, err, spawn.ErrStale)
	})
}

// What a receiver refuses for good is blocked at once: here a limit that has become stricter.
func TestSendOutThatIsRefusedThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := session.NewMemory()
		first, err := spawn.Open(t.Context(), spawn.Config{Store: store, Runner: new(readers)})
		require.NoError(t, err)
		sendOut(t, first, otherTree, "1", "a long message")
		sendOut(t, first, otherTree, "2", "short")
		require.NoError(t, first.Shutdown(t.Context()), "it never ran")
		view, err := spawn.View(topKey, store.Journal.Read(t.Context(), topKey, 0))
		require.NoError(t, err)
		require.Len(t, view.Outbox, 2)
		require.False(t, view.Outbox[0].MayRepeat)

		r := new(readers)
		cfg := spawn.Config{Store: store, Runner: r, Limits: spawn.Limits{Message: 8}}
		s := openSupervisor(t, cfg)
		time.Sleep(2 * time.Minute)
		require.Equal(t, []string{"short"}, r.texts(otherTree))
		blocked, err := s.Blocked(t.Context())
		require.NoError(t, err)
		require.Len(t, blocked, 1)
		require.Equal(t, 2, blocked[0].Attempt, "after one attempt")
		require.False(t, blocked[0].Blocked.IsZero())
		require.Contains(t, blocked[0].Error, "Limits.Message")
	})
}

// holdRead is a journal of which the log of one tree, while it is held, is read once and no more.
type holdRead struct {
	session.Journal
	root session.Key
	held atomic.Bool
	read atomic.Bool
}

func (j *holdRead) Read(
	ctx context.Context, root session.Key, after session.Seq,
) iter.Seq2[session.Entry, error] {
	if root == j.root && j.held.Load() && j.read.Swap(true) {
		return func(yield func(session.Entry, error) bool) {
			<-ctx.Done()
			yield(session.Entry{}, ctx.Err())
		}
	}
	return j.Journal.Read(ctx, root, after)
}

// A shutdown that comes before the post does not count as an attempt: the next process repeats
// nothing.
func TestSendOutThatAShutdownCutsShort(t *testing.T) {
	chat := session.Must(session.GroupKey("other", "irc", "room"))
	synctest.Test(t, func(t *testing.T) {
		j := &holdRead{Journal: session.NewMemory().Journal, root: chat}
		store := &session.Store{Journal: j}
		first, ran := runUntil(forADay(t), t, spawn.Config{Store: store, Runner: new(readers)})
		require.NoError(t, errorOf(first.Post(t.Context(), chat, chat, spawn.Incoming{Text: "hi"})))
		time.Sleep(time.Hour) // nothing of the tree is in memory
		j.held.Store(true)
		sendOut(t, first, chat, "1", "one") // it reads the log once
		synctest.Wait()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_ = first.Shutdown(short)
		require.NoError(t, <-ran)
		r := new(readers)
		openSupervisor(t, spawn.Config{Store: store, Runner: r})
		synctest.Wait()
		view, err := spawn.View(topKey, store.Journal.Read(t.Context(), topKey, 0))
		require.NoError(t, err)
		require.Equal(t, uint64(2), view.Epoch)
		require.Len(t, view.Outbox, 1)
		require.Equal(t, 1, view.Outbox[0].Attempt)
		require.False(t, view.Outbox[0].MayRepeat)
		j.held.Store(false)
		time.Sleep(time.Hour)
		require.Equal(t, []string{"one"}, r.texts(chat))
	})
}

// letters are three trees that write to each other in random histories.
type letters struct {
	h       *spawntest.History
	mu      sync.Mutex
	servers map[int]*spawn.Supervisor
}

var treesOfLetters = []session.Key{topKey, otherTree, thirdTree}

// RunTurn answers a message of another tree, and writes to one over any other.
func (l *letters) RunTurn(ctx context.Context, t *spawn.TurnInput) (spawn.TurnResult, error) {
	in := t.Inputs[len(t.Inputs)-1]
	n := l.h.Roll(6, t.Session.Key, in.ID, in.Text)
	if in.From.IsValid() || n == 0 {
		return spawn.TurnResult{Reply: "well"}, nil
	}
	i := slices.Index(treesOfLetters, t.Session.Key)
	m := spawn.Incoming{ID: "m" + in.ID, Text: "of " + in.Text}
	within := time.Duration(n%3) * 10 * time.Second
	_, _, err := t.SendOut(ctx, treesOfLetters[(i+1+n%2)%3], m, within)
	return spawn.TurnResult{Reply: fmt.Sprint(err == nil)}, nil
}

func (l *letters) open(ctx context.Context, p *spawntest.Process) (spawntest.Server, error) {
	s, err := spawn.Open(ctx, spawn.Config{Store: p.Store, Runner: l})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.servers[p.Life] = s
	return s, err
}

func (l *letters) of(p *spawntest.Process) *spawn.Supervisor {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.servers[p.Life]
}

func (l *letters) post(ctx context.Context, p *spawntest.Process, n int) {
	to := treesOfLetters[n%3]
	m := spawn.Incoming{ID: strconv.Itoa(n), Text: "go " + strconv.Itoa(n)}
	_, _ = l.of(p).Post(ctx, to, to, m)
}

func (l *letters) send(ctx context.Context, p *spawntest.Process, n int) {
	from, to := treesOfLetters[n%3], treesOfLetters[(n+1+n/3%2)%3]
	m := spawn.Incoming{ID: strconv.Itoa(n), Text: "send " + strconv.Itoa(n)}
	within := time.Duration(n%4) * 5 * time.Second
	_, _, _ = l.of(p).SendOut(ctx, from, from, to, m, within)
}

// settle retries or dismisses what is blocked.
func (l *letters) settle(ctx context.Context, p *spawntest.Process, n int) {
	s := l.of(p)
	list, _ := s.Blocked(ctx)
	for _, d := range list {
		settle := s.Retry
		if n == 1 {
			settle = s.Dismiss
		}
		_ = settle(ctx, d.Key)
	}
}

func (l *letters) rest(ctx context.Context, _ *spawntest.Process, n int) {
	select {
	case <-time.After(time.Duration(n) * time.Second):
	case <-ctx.Done():
	}
}

// Over random histories of three trees that write to each other, while their store fails and their
// process dies, each message is posted once.
func TestHistoriesOfSendOut(t *testing.T) {
	spawntest.Histories{
		N: 60, Overlap: true,
		New: func(h *spawntest.History) spawntest.Program {
			l := &letters{h: h, servers: make(map[int]*spawn.Supervisor)}
			return spawntest.Program{
				Open: l.open,
				Commands: []spawntest.Command{
					{Name: "post", Span: 30, Do: l.post},
					{Name: "send", Span: 30, Do: l.send},
					{Name: "settle", Span: 2, Do: l.settle},
					{Name: "rest", Span: 60, Do: l.rest},
				},
				Over: func() error { return spawntest.AuditSent(treesOfLetters, h.Entries) },
			}
		},
	}.Run(t)
}
