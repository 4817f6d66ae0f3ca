package agent_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/binding"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// TestBindingHistories plays random histories of a bot whose conversations are bound, in package
// spawntest: people write in rooms and threads, and their transport posts again what it has posted;
// sub-agents are spawned with threads, also as forks, by the program and from turns, focused,
// stopped, archived, deleted, brought back and told more; bindings expire, get other limits, and
// lose their threads; the store and the channel fail or lose answers, and the process dies between
// any two facts, or is shut down. Two of these things may be in the same instant.
//
// A history reads the log of bindings and the journals of the trees by itself, and checks:
//
//   - at rest, the log of bindings and the trees agree, and a conversation has one session at most;
//   - a message went to the session that was bound at that moment, else to the conversation's own;
//     it is in one session only, and is answered once, by that session and in its conversation;
//   - a binding that has ended is settled, and has said farewell once, or its reason says why not;
//   - nothing of a conversation is told in another;
//   - a fork begins with what was committed, or with what the turn has read that spawns it, and
//     with the same in each of its turns, whatever happened to the two sessions in between;
//   - no goroutine is left.
//
// OFFSHOOT_FUZZ sets how many histories are played, in tens. A failure names its seed, which
// OFFSHOOT_SEED plays again.
func TestBindingHistories(t *testing.T) {
	l := &lobby{happened: make(map[string]int)}
	played := 0
	hs := spawntest.Histories{N: 500, Acts: 10, New: func(h *spawntest.History) spawntest.Program {
		played++
		return l.program(h)
	}}
	playHistories(t, &hs, 10)
	t.Log(l.happened)
	if played < 500 || os.Getenv("OFFSHOOT_SEED") != "" {
		return
	}
	for _, what := range []string{
		"taken by a bound session", "taken by its own session", "posted again", "answered",
		"spawn", "spawn in a thread", "focus", "focus of a thread", "focus of a new thread",
		"unfocus", "limit", "stop", "delete", "revive", "follow", "gone", "told", "to the expiry",
		"at once", "farewell", "no farewell", "begun",
		"ended: manual", "ended: idle-expired", "ended: max-age-expired", "ended: replaced",
		"ended: thread-archived", "ended: thread-delete",
		"fork by the program", "fork by a turn", "fork checked", "fork shown again",
		"fork shown after a revival", "fork in a thread",
		"ended: subagent-complete", "ended: subagent-killed", "ended: session-delete",
	} {
		if l.happened[what] == 0 {
			t.Errorf("%q did not happen in %d histories", what, played)
		}
	}
	if played >= 5000 && l.happened["ended: stale-session"] == 0 { // one in a hundred has it
		t.Error("no session was found stale")
	}
}

// A lobby is what outlives the processes of one history: the channel, what people have written in
// it, and what they were told. It counts what happened in all histories.
type lobby struct {
	h     *spawntest.History
	chat  *agenttest.FakeChannel
	store *session.Store

	mu       sync.Mutex
	rts      map[int]*agent.Runtime
	children []session.Key
	posts    []*lobbyPost          // that were accepted, in the order of their answers
	byID     map[string]*lobbyPost // every one that was written
	said     []lobbySaid
	cut      map[session.Key]bool // sessions that were stopped, deleted ones too
	gone     map[session.Route]bool
	forks    map[session.Key]*lobbyFork
	follows  map[session.Key][]time.Time // when the program had a session told more
	tried    map[string]agent.Task       // spawns, by their keys
	begun    map[string]bool             // by the ID, as the log has it
	happened map[string]int
}

// A lobbyFork is what a forked sub-agent has of its requester's conversation.
type lobbyFork struct {
	known, shown bool     // want is known; it was shown something
	want, got    []string // what it is to begin with, and what it was shown, without senders
	revived      bool     // since it was shown that
}

// A lobbyPost is what a person has written.
type lobbyPost struct {
	m     agent.Incoming
	own   session.Key
	began moment
	ended moment
	again []time.Time // it was posted again, and known
	to    session.Key // that took it; zero: it is not known whether one has
}

// A moment is a time, and how many facts the log of bindings had.
type moment struct {
	at    time.Time
	facts int
}

// A lobbySaid is what a session has said in a conversation.
type lobbySaid struct {
	key   string
	reply agent.Reply
	at    time.Time
}

func (l *lobby) now() moment {
	m := moment{at: time.Now()}
	for _, err := range l.h.Entries(session.BindingsRoot()) {
		if err == nil {
			m.facts++
		}
	}
	return m
}

func (l *lobby) count(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.happened[what]++
}

// program returns what a history is of.
func (l *lobby) program(h *spawntest.History) spawntest.Program {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.h, l.chat, l.rts = h, agenttest.NewFakeChannel("discord"), make(map[int]*agent.Runtime)
	l.byID, l.cut = make(map[string]*lobbyPost), make(map[session.Key]bool)
	l.gone, l.tried = make(map[session.Route]bool), make(map[string]agent.Task)
	l.forks = make(map[session.Key]*lobbyFork)
	l.children, l.posts, l.said = nil, nil, nil
	l.store = session.NewMemory()
	for n := range 4 { // those of people
		l.chat.Set(l.conversation(n), agent.ThreadOpen)
	}
	rules := l.rules()
	return spawntest.Program{
		Open: l.open, Commands: l.commands(), Check: l.check, Rules: &rules, Store: l.store,
		Sites: []string{"model", "reply", "create", "farewell", "probe"},
	}
}

func (l *lobby) rules() policy.Rules {
	return policy.Rules{Subagents: policy.Subagents{
		MaxChildren: 20, MaxSpawnDepth: 2, ArchiveAfter: 40 * time.Minute,
	}}
}

func (l *lobby) open(ctx context.Context, p *spawntest.Process) (spawntest.Server, error) {
	idle := 2.0
	cfg := agent.Config{
		Store: p.Store, Rules: l.rules(),
		Runner: agent.RunnerFunc(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
			return l.turn(ctx, p, tn)
		}),
		Reply: func(_ context.Context, d agent.Delivery) error {
			return p.Call("reply", func() error { return l.told(d) })
		},
		Threads: agent.Threads{Channels: map[string]agent.ThreadChannel{"discord": {
			Host:     lobbyHost{l.chat, p},
			Bindings: binding.Settings{IdleHours: &idle},
		}}},
	}
	rt, err := agent.Open(ctx, cfg)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rts[p.Life] = rt
	return rt, err
}

// A lobbyHost is the channel as a process reaches it.
type lobbyHost struct {
	chat *agenttest.FakeChannel
	p    *spawntest.Process
}

func (h lobbyHost) CreateThread(
	ctx context.Context, t agent.NewThread,
) (at session.Route, err error) {
	err = h.p.Call("create", func() (err error) {
		at, err = h.chat.CreateThread(ctx, t)
		return err
	})
	return at, err
}

func (h lobbyHost) Farewell(ctx context.Context, f agent.Farewell) error {
	return h.p.Call("farewell", func() error { return h.chat.Farewell(ctx, f) })
}

func (h lobbyHost) ProbeThread(
	ctx context.Context, at session.Route,
) (state agent.ThreadState, err error) {
	err = h.p.Call("probe", func() (err error) {
		state, err = h.chat.ProbeThread(ctx, at)
		return err
	})
	return state, err
}

// tokens finds the IDs of messages in what is said.
var tokens = regexp.MustCompile(`#[a-z0-9.-]+#`)

// turn answers what people have written with the tokens of that.
func (l *lobby) turn(
	ctx context.Context, p *spawntest.Process, tn *agent.Turn,
) (r agent.Result, err error) {
	l.see(tn)
	key := fmt.Sprint(tn.Session.Depth, tn.Label)
	if err := pause(ctx, time.Duration(l.h.Roll(40, key, tn.N))*time.Second); err != nil {
		return r, err
	}
	r.Text = "done"
	for _, m := range tn.Messages[len(tn.Messages)-tn.New:] {
		if !m.Internal {
			r.Text += strings.Join(tokens.FindAllString(m.Text, -1), "")
		}
	}
	err = p.Call("model", func() error {
		if l.h.Roll(5, "spawns", key, tn.N) == 0 && tn.Session.Depth < 2 {
			task := agent.Task{Text: "work", Thread: l.h.Roll(2, "thread", key, tn.N) == 0}
			if l.h.Roll(2, "forks", key, tn.N) == 0 {
				task.Spec.History = agentctx.HistoryFork
			}
			if child, err := tn.Spawn(ctx, task); err == nil {
				l.add(child.Key())
				l.forked("fork by a turn", task, child.Key(), copiedLines(tn.Messages), true)
			}
		}
		return nil
	})
	return r, err
}

// forked notes what a sub-agent is to begin with, if its task says that it is a fork.
func (l *lobby) forked(
	how string, task agent.Task, key session.Key, begin []string, known bool,
) {
	if task.Spec.History != agentctx.HistoryFork {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.happened[how]++
	if task.Thread {
		l.happened["fork in a thread"]++
	}
	f := l.fork(key)
	f.want, f.known = withoutSenders(begin), known
}

// withoutSenders returns lines without who speaks, which a history does not say within its texts.
func withoutSenders(lines []string) (list []string) {
	for _, line := range lines {
		list = append(list, strings.ReplaceAll(line, "[message from id \"ann\"]\n", ""))
	}
	return list
}

// fork returns what is known of a fork. The lobby is locked.
func (l *lobby) fork(key session.Key) *lobbyFork {
	if l.forks[key] == nil {
		l.forks[key] = new(lobbyFork)
	}
	return l.forks[key]
}

// see compares what a turn is shown of another conversation with what it was shown before.
func (l *lobby) see(tn *agent.Turn) {
	lines := slices.DeleteFunc(forkedLines(tn.Messages), func(line string) bool {
		return !strings.HasPrefix(line, "> ")
	})
	lines = withoutSenders(lines)
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(lines) == 0 && l.forks[tn.Session.Key] == nil {
		return
	}
	f := l.fork(tn.Session.Key)
	switch {
	case !f.shown:
	case !slices.Equal(f.got, lines):
		l.h.Errorf("%s began with %q, and now with %q", tn.Session.Key, f.got, lines)
	case f.revived:
		l.happened["fork shown after a revival"]++
	default:
		l.happened["fork shown again"]++
	}
	f.shown, f.got, f.revived = true, lines, false
}

// told notes what people are told.
func (l *lobby) told(d agent.Delivery) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if slices.ContainsFunc(l.said, func(s lobbySaid) bool { return s.key == d.Key }) {
		return nil
	}
	l.said = append(l.said, lobbySaid{d.Key, *d.Reply, time.Now()})
	return nil
}

func (l *lobby) add(key session.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(l.children, key) {
		l.children = append(l.children, key)
	}
}

// rooms returns the conversations in which threads can be created.
func (l *lobby) rooms() []session.Route {
	return []session.Route{l.chat.At("general", ""), l.chat.At("attic", "")}
}

// conversation returns the one of a number: a room, a thread that people made, or one that was
// created.
func (l *lobby) conversation(n int) session.Route {
	list := l.rooms()
	for _, at := range l.rooms() {
		at.Thread = "7"
		list = append(list, at)
	}
	list = append(list, l.chat.Threads()...)
	return list[n%len(list)]
}

// place is conversation, and in half of the cases one that is bound now, if there is one.
func (l *lobby) place(ctx context.Context, c lobbyCall) session.Route {
	list, err := c.rt.Bindings(ctx)
	if err != nil || len(list) == 0 || c.n%2 == 0 {
		return l.conversation(c.n / 2)
	}
	return list[c.n/2%len(list)].Conversation
}

// thread is conversation for those that are one.
func (l *lobby) thread(n int) session.Route {
	threads := l.chat.Threads()
	if len(threads) == 0 {
		return l.conversation(2 + n%2)
	}
	return threads[n%len(threads)]
}

// ownOf returns the conversation's own session.
func (l *lobby) ownOf(at session.Route) session.Key {
	key, err := l.chat.Key(at)
	if err != nil {
		l.h.Errorf("the session of %v: %w", at, err)
	}
	return key
}

// child returns a sub-agent, and whether there is one.
func (l *lobby) child(n int) (session.Key, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.children) == 0 {
		return session.Key{}, false
	}
	return l.children[n%len(l.children)], true
}

// A lobbyCall is what one command works with.
type lobbyCall struct {
	rt *agent.Runtime
	p  *spawntest.Process
	n  int    // of the command
	id string // of the call; the same in a history that is made shorter
	// began is when it may have begun at the earliest. Of two at once it is before both: a fact
	// that one has recorded binds the other only once the call that recorded it has returned.
	began moment
}

// commands returns what people and the program do.
func (l *lobby) commands() (list []spawntest.Command) {
	acts := l.acts()
	for _, a := range acts {
		list = append(list, spawntest.Command{Name: a.name, Weight: a.weight, Span: 60, Do: func(
			ctx context.Context, p *spawntest.Process, n int,
		) {
			l.do(ctx, p, n, a, l.now(), fmt.Sprintf("%d.%d.%s", p.Life, n, a.name))
		}})
	}
	return append(list, spawntest.Command{Name: "at-once", Weight: 8, Span: 10_000, Do: func(
		ctx context.Context, p *spawntest.Process, n int,
	) {
		var both sync.WaitGroup
		began := l.now()
		for i, a := range []lobbyAct{acts[n%len(acts)], acts[n/100%len(acts)]} {
			both.Go(func() { l.do(ctx, p, n/10, a, began, fmt.Sprintf("%d.%d.%d", p.Life, n, i)) })
		}
		both.Wait()
		l.count("at once")
	}})
}

// do does one act, and checks that its error is one that is to be expected.
func (l *lobby) do(
	ctx context.Context, p *spawntest.Process, n int, a lobbyAct, began moment, id string,
) {
	l.mu.Lock()
	c := lobbyCall{l.rts[p.Life], p, n, id, began}
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 4*time.Hour) // an act may wait
	defer cancel()
	err := a.do(ctx, c)
	l.h.Logf("%v %s %s: %v", time.Since(lobbyBegan), a.name, id, err)
	if err == nil || p.IsDead() {
		return
	}
	for _, known := range []error{
		errNotDone, agent.ErrNotFound, agent.ErrArchived, agent.ErrEnded, agent.ErrNothing,
		agent.ErrUnconfirmed, agent.ErrNotRecorded, spawn.ErrStopping, spawntest.ErrFault,
		spawntest.ErrDead, binding.ErrBound, binding.ErrNotOwner, agent.ErrShutdown,
	} {
		if errors.Is(err, known) {
			return
		}
	}
	if _, refused := errors.AsType[*policy.Refusal](err); refused {
		return
	}
	l.h.Errorf("%s %s: %w", a.name, id, err)
}

// lobbyBegan is when the clock of a history begins.
var lobbyBegan = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// errNotDone says that an act had nothing to act on.
var errNotDone = errors.New("it had nothing to act on")

// A lobbyAct is something that people or the program do.
type lobbyAct struct {
	name   string
	weight int
	do     func(ctx context.Context, c lobbyCall) error
}

func (l *lobby) acts() []lobbyAct {
	return []lobbyAct{
		{"write", 16, l.write},
		{"again", 4, l.again},
		{"spawn", 8, l.spawn},
		{"focus", 8, l.focus},
		{"unfocus", 4, l.unfocus},
		{"limit", 3, l.limit},
		{"stop", 3, l.stop},
		{"delete", 2, l.delete},
		{"revive", 3, l.revive},
		{"follow", 2, l.follow},
		{"gone", 2, l.lose},
		{"wait", 6, l.wait},
		{"expire", 4, l.expire},
	}
}

// write has a person write, whose transport tries three times.
func (l *lobby) write(ctx context.Context, c lobbyCall) error {
	return l.post(ctx, c, l.written(l.place(ctx, c)))
}

// written has a person write in a conversation.
func (l *lobby) written(at session.Route) *lobbyPost {
	l.mu.Lock()
	defer l.mu.Unlock()
	id := "m" + strconv.Itoa(len(l.byID)+1)
	l.byID[id] = &lobbyPost{own: l.ownOf(at), m: agent.Incoming{
		ID: id, Text: "#" + id + "#", Route: at, From: session.Sender{ID: "ann"},
	}}
	return l.byID[id]
}

// post posts a message, and notes which session has taken it.
func (l *lobby) post(ctx context.Context, c lobbyCall, post *lobbyPost) error {
	var receipt agent.Receipt
	err := errNotDone
	for i := 0; i < 3 && err != nil && !c.p.IsDead(); i++ {
		receipt, err = c.rt.Session(post.own).Post(ctx, post.m)
	}
	last := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if post.began.at.IsZero() {
		post.began = c.began
	}
	switch {
	case err != nil:
		return err
	case post.to.IsZero():
		post.to, post.ended = receipt.Session, last
		l.posts = append(l.posts, post)
	case post.to != receipt.Session || !receipt.Existing:
		l.h.Errorf("%s was told to %s, and then to %s, existing: %v", post.m.ID, post.to,
			receipt.Session, receipt.Existing)
	default:
		post.again = append(post.again, last.at)
	}
	l.h.Logf("%s is told to %s, existing: %v", post.m.ID, receipt.Session, receipt.Existing)
	return nil
}

// again has a transport post again what it has posted.
func (l *lobby) again(ctx context.Context, c lobbyCall) error {
	l.mu.Lock()
	var post *lobbyPost
	if len(l.posts) > 0 {
		post = l.posts[c.n%len(l.posts)]
	}
	l.mu.Unlock()
	if post == nil {
		return errNotDone
	}
	l.count("posted again")
	return l.post(ctx, c, post)
}

func (l *lobby) spawn(ctx context.Context, c lobbyCall) error {
	rooms := l.rooms()
	room := rooms[c.n%len(rooms)]
	task := agent.Task{
		Text: "work", Label: "worker", Thread: true, Conversation: room,
		Announce: c.n%3 == 0, Mode: agent.TaskMode(c.n / 3 % 3), Key: c.id,
	}
	if c.n%10 == 9 {
		task.Cleanup = agent.CleanupDelete
	}
	what := "spawn"
	if c.n%8 == 7 {
		task.Conversation, what = l.thread(c.n/8), "spawn in a thread"
	}
	if c.n/4%2 == 0 {
		task.Spec.History = agentctx.HistoryFork
	}
	from := c.rt.Session(l.ownOf(room))
	begin, begun := committedLines(ctx, from)
	l.mu.Lock()
	earlier, again := l.tried[task.Key]
	if again { // it may be there already, and other threads may be there than then
		task = earlier
	}
	l.tried[task.Key] = task
	l.mu.Unlock()
	child, err := from.Spawn(ctx, task)
	if errors.Is(err, agent.ErrUnconfirmed) { // the program spawns again under the key
		child, err = from.Spawn(ctx, task)
	}
	if _, own := errors.AsType[*agent.InputError](err); own && len(begin) == 0 {
		return errNotDone // there is nothing to fork
	}
	if err != nil {
		return err
	}
	l.add(child.Key())
	l.count(what)
	now, still := committedLines(ctx, from)
	if !again { // a turn may have ended
		known := begun == nil && still == nil && len(now) == len(begin)
		l.forked("fork by the program", task, child.Key(), begin, known)
	}
	return nil
}

// lobbyOwner returns the owner of a number.
func lobbyOwner(n int) string { return []string{"ann", "bob", binding.SystemOwner}[n%3] }

func (l *lobby) focus(ctx context.Context, c lobbyCall) error {
	key, ok := l.child(c.n / 3)
	if c.n%7 == 6 { // a top-level session, in another conversation than its own
		key, ok = l.ownOf(l.rooms()[c.n%2]), true
	}
	if !ok {
		return errNotDone
	}
	q := agent.FocusRequest{
		Conversation: l.place(ctx, c), Session: key, By: lobbyOwner(c.n / 2),
	}
	what := "focus"
	switch {
	case c.n%5 == 4:
		q.Conversation, q.NewThread, q.ID = l.rooms()[c.n%2], true, c.id
		what = "focus of a new thread"
	case q.Conversation.Thread != "":
		what = "focus of a thread"
	}
	_, err := c.rt.Focus(ctx, q)
	if _, own := errors.AsType[*agent.InputError](err); own {
		return errNotDone
	}
	if err == nil {
		l.count(what)
	}
	return err
}

func (l *lobby) unfocus(ctx context.Context, c lobbyCall) error {
	_, err := c.rt.Unfocus(ctx, agent.UnfocusRequest{
		Conversation: l.place(ctx, c), By: lobbyOwner(c.n / 5),
	})
	if err == nil {
		l.count("unfocus")
	}
	return err
}

func (l *lobby) limit(ctx context.Context, c lobbyCall) error {
	limit := time.Duration(c.n/2%3) * 20 * time.Minute // of 0: none
	q := binding.Limit{Idle: &limit}
	if c.n%4 < 2 {
		q = binding.Limit{MaxAge: &limit}
	}
	_, err := c.rt.LimitFocus(ctx, l.place(ctx, c), lobbyOwner(c.n/5), q)
	if err == nil {
		l.count("limit")
	}
	return err
}

// end is stop or delete.
func (l *lobby) end(c lobbyCall, what string, f func(key session.Key) error) error {
	key, ok := l.child(c.n)
	if !ok {
		return errNotDone
	}
	err := f(key)
	if err == nil {
		l.count(what)
	}
	return err
}

func (l *lobby) stop(ctx context.Context, c lobbyCall) error {
	return l.end(c, "stop", func(key session.Key) error { return c.rt.Session(key).Stop(ctx) })
}

func (l *lobby) delete(ctx context.Context, c lobbyCall) error {
	return l.end(c, "delete", func(key session.Key) error { return c.rt.DeleteSession(ctx, key) })
}

func (l *lobby) revive(ctx context.Context, c lobbyCall) error {
	key, ok := l.child(c.n)
	if !ok {
		return errNotDone
	}
	err := c.rt.Session(key).Revive(ctx)
	if err == nil {
		l.count("revive")
		l.mu.Lock()
		defer l.mu.Unlock()
		if f := l.forks[key]; f != nil {
			f.revived = true
		}
	}
	return err
}

func (l *lobby) follow(ctx context.Context, c lobbyCall) error {
	key, ok := l.child(c.n)
	if !ok {
		return errNotDone
	}
	_, err := c.rt.Session(key).Post(ctx, agent.Incoming{ID: c.id, Text: "go on"})
	if err == nil {
		l.count("follow")
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.follows == nil {
			l.follows = make(map[session.Key][]time.Time)
		}
		l.follows[key] = append(l.follows[key], time.Now())
	}
	return err
}

// lose has a thread closed or deleted. The transport says so, or the next process asks.
func (l *lobby) lose(ctx context.Context, c lobbyCall) error {
	at, state, why := l.thread(c.n), agent.ThreadGone, binding.ReasonThreadDeleted
	if c.n%4 < 2 {
		state, why = agent.ThreadArchived, binding.ReasonThreadArchived
	}
	l.mu.Lock()
	if l.gone[at] { // it does not come back
		state, why = agent.ThreadGone, binding.ReasonThreadDeleted
	}
	l.gone[at] = state == agent.ThreadGone
	l.chat.Set(at, state)
	l.happened["gone"]++
	l.mu.Unlock()
	if c.n%3 == 0 {
		return nil
	}
	_, err := c.rt.Unfocus(ctx, agent.UnfocusRequest{
		Conversation: at, By: binding.SystemOwner, Reason: why,
	})
	if err == nil {
		l.count("told")
	}
	return err
}

func (l *lobby) wait(ctx context.Context, c lobbyCall) error {
	return pause(ctx, time.Duration(1+c.n%60)*2*time.Minute)
}

// expire waits until the instant in which a binding expires, and acts in that.
func (l *lobby) expire(ctx context.Context, c lobbyCall) error {
	list, err := c.rt.Bindings(ctx)
	if err != nil || len(list) == 0 {
		return errors.Join(err, errNotDone)
	}
	of := list[c.n%len(list)]
	at, _, ok := of.Expiry()
	if !ok || time.Until(at) > 3*time.Hour {
		return errNotDone
	}
	if err := pause(ctx, time.Until(at)); err != nil {
		return err
	}
	l.count("to the expiry")
	c.began = l.now()
	return l.post(ctx, c, l.written(of.Conversation))
}
