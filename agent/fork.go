package agent

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/session"
)

// A fork names the part of the conversation of its requester that a sub-agent begins with. The zero
// fork names none.
type fork struct {
	SessionID string      `json:"session"` // of the requester's conversation
	Through   session.Pos `json:"through"` // no line after it is copied
}

// IsZero reports whether the sub-agent begins with an empty conversation.
func (f fork) IsZero() bool { return f == fork{} }

// subagentSpec returns what a sub-agent of an agent sees that was spawned with a Spec.
func (c *Config) subagentSpec(agent string, spawned agentctx.Spec) agentctx.Spec {
	under, ok := inAnyCase(c.Prompts.SubagentSpecs, agent)
	if !ok {
		under = c.Prompts.SubagentSpecs[""]
	}
	return spawned.Or(under)
}

// forkOf returns the part of the conversation of a requester that the sub-agent of a task begins
// with. A fork that the task asks for and that cannot be is an error. One that only SubagentSpecs
// ask for is left out then.
func (t *Task) forkOf(ctx context.Context, from Requester) (f fork, err error) {
	rt, _ := from.actor()
	key := from.sessionKey()
	if !rt.cfg().forks(key, t) {
		return fork{}, nil
	}
	f, err = from.forkHere(ctx)
	switch {
	case err != nil:
		return fork{}, err
	case f.Through > 0:
		return f, nil
	case t.Spec.History == agentctx.HistoryFork:
		return fork{}, noConversation(key)
	}
	return fork{}, nil
}

// forks reports whether a task of a session asks for a fork, which may be refused, or SubagentSpecs
// do where the Rules let it be.
func (c *Config) forks(from session.Key, t *Task) bool {
	agent := t.Agent
	if agent == "" {
		agent = c.Rules.AgentOf(from)
	}
	return c.subagentSpec(agent, t.Spec).History == agentctx.HistoryFork &&
		(t.Spec.History == agentctx.HistoryFork || c.Rules.SharesHistory(from, agent))
}

// noConversation returns the error of a fork from a session of which there is nothing to copy.
func noConversation(key session.Key) error {
	return &InputError{
		Field: "Task.Spec.History", Reason: fmt.Sprintf("%q has no conversation here that the "+
			"sub-agent could begin with: it has had no turn, or the program runs its turns; "+
			"put what the sub-agent must know into its task", key),
	}
}

// forkHere implements Requester: it names the committed conversation.
func (s *Session) forkHere(ctx context.Context) (fork, error) {
	root, err := s.tree(ctx)
	if err != nil {
		return fork{}, s.rt.commandOrArchived(ctx, s.key, err)
	}
	ref, end, err := s.rt.sup.Transcript(ctx, root, s.key)
	switch {
	case errors.Is(err, ErrNotFound) && !s.key.IsSubagent():
		return fork{}, nil // it begins with the spawn
	case err != nil:
		return fork{}, s.rt.commandOrArchived(ctx, s.key, err)
	}
	return fork{ref.SessionID, end}, nil
}

// forkHere implements Requester: it names what the turn has read and recorded, up to the message of
// the model whose tool calls are under way.
func (t *Turn) forkHere(context.Context) (fork, error) {
	if err := t.err(); err != nil {
		return fork{}, err
	}
	return fork{t.log.ref.SessionID, t.log.forkPoint()}, nil
}

// forkPoint returns how far a fork that is made now reads the transcript.
func (r *turnRecord) forkPoint() session.Pos {
	r.mu.Lock()
	defer r.mu.Unlock()
	return forkPoint(r.history.end, r.open.Load())
}

// forkPoint returns how far a fork reads a transcript that ends at end, and whose newest calls are
// open; nil: there are none. Up to there each call has its result.
func forkPoint(end session.Pos, open *openCalls) session.Pos {
	switch {
	case open == nil || len(open.still) == 0:
		return end
	case open.line > 0:
		return open.line - 1 // positions have an order and nothing else: it is before the line
	}
	return open.before
}

// A forkCut decides which lines of a transcript a fork copies: those of a [session.View] of the
// lines up to a position. Notes behind the position do not count, so that a fence that a later turn
// has written discards nothing. See takes each line once, in order, and then takes tells.
type forkCut struct {
	through session.Pos
	lines   int          // that were seen
	spans   []span       // of what no fence discards; the last one has no end yet
	notes   []forkedNote // compactions that no fence discards
}

// A span has the positions after one and up to another.
type span struct{ after, through session.Pos }

type forkedNote struct {
	pos  session.Pos
	note Message
}

func newForkCut(through session.Pos) *forkCut {
	return &forkCut{through: through, spans: []span{{0, math.MaxUint64}}}
}

// see takes the next line into account.
func (c *forkCut) see(line session.Line) {
	m := line.Message
	if c.lines++; line.Pos > c.through || m.Role != session.MessageNote {
		return
	}
	if m.IsCompaction() {
		c.notes = append(c.notes, forkedNote{line.Pos, m})
		return
	}
	beyond := func(pos session.Pos) bool { return pos >= m.Discard }
	for len(c.spans) > 0 && beyond(c.spans[len(c.spans)-1].after) {
		c.spans = c.spans[:len(c.spans)-1]
	}
	if n := len(c.spans); n > 0 {
		c.spans[n-1].through = min(c.spans[n-1].through, m.Discard)
	}
	c.spans = append(c.spans, span{line.Pos, math.MaxUint64})
	c.notes = slices.DeleteFunc(c.notes, func(n forkedNote) bool { return n.pos > m.Discard })
}

// compaction returns the note that the copy begins with, and false if there is none.
func (c *forkCut) compaction() (Message, bool) {
	if len(c.notes) == 0 {
		return Message{}, false
	}
	return c.notes[len(c.notes)-1].note, true
}

// after returns the position behind which the lines are that takes takes.
func (c *forkCut) after() session.Pos {
	note, _ := c.compaction()
	return note.Compacted.Through
}

// takes reports whether a line is copied.
func (c *forkCut) takes(line session.Line) bool {
	return line.Pos > c.after() && line.Pos <= c.through &&
		line.Message.Role != session.MessageNote &&
		slices.ContainsFunc(c.spans, func(s span) bool {
			return line.Pos > s.after && line.Pos <= s.through
		})
}

// copied returns a message of the requester as the sub-agent's transcript has it. What it consumed,
// and the ordinal of the input that it was, are of the other session.
func copied(m Message) Message {
	m.Ord, m.Usage, m.Copied = 0, session.Usage{}, true
	return m
}

// copiedCompaction returns the note of a compaction as the first line of another transcript.
func copiedCompaction(note Message) Message {
	of := note.Compacted
	of.Through = 0
	return session.Compaction(session.NewID(), note.Text, of, note.Time)
}

// What a fork holds in memory at a time.
const (
	maxForkLines = 256
	maxForkBytes = 1 << 20 // beyond it there is one more line
)

// copyFork begins the transcript with a part of the conversation of the requester, of which an
// earlier attempt may have left some: that is fenced off. Each page is read before it is written,
// so that the memory it takes does not grow with the conversation.
func (r *turnRecord) copyFork(ctx context.Context, from session.Ref, through session.Pos) error {
	if err := r.fenceAll(ctx); err != nil {
		return err
	}
	cut := newForkCut(through)
	err := r.eachPage(ctx, from, 0, through, func(lines []session.Line) error {
		for _, line := range lines {
			cut.see(line)
		}
		return nil
	})
	if err == nil && cut.lines == 0 {
		err = fmt.Errorf("agent: the conversation of %q that the sub-agent was to begin with: %w",
			from.Key, session.ErrNotFound)
	}
	if err != nil {
		return err
	}
	if note, ok := cut.compaction(); ok {
		if err := r.append(ctx, copiedCompaction(note)); err != nil {
			return err
		}
	}
	var c conversation
	files := make(map[session.File]bool)
	write := func(fill bool) error {
		lines := c.takeAll(fill, time.Now().UTC(), math.MaxInt)
		if err := r.bring(ctx, []session.Ref{from}, lines, files); err != nil {
			return err
		}
		return r.append(ctx, lines...)
	}
	err = r.eachPage(ctx, from, cut.after(), through, func(lines []session.Line) error {
		for _, line := range lines {
			if cut.takes(line) {
				_ = c.accept(copied(line.Message)) // the result of no call is left out
			}
		}
		return write(false)
	})
	if err == nil {
		err = write(true)
	}
	if err != nil {
		return err
	}
	return r.read(ctx, r.history.end)
}

// fenceAll discards all lines of the transcript.
func (r *turnRecord) fenceAll(ctx context.Context) error {
	last, err := r.lastLines(ctx, 1)
	if err != nil || len(last) == 0 {
		return err
	}
	r.history.end = last[0].Pos
	return r.append(ctx, session.Fence(0, time.Now()))
}

// eachPage calls f with the lines of a transcript, archived or not, after a position and up to
// another. The error is that of f, or why the transcript cannot be read.
func (r *turnRecord) eachPage(
	ctx context.Context, from session.Ref, after, through session.Pos,
	f func([]session.Line) error,
) error {
	for after < through {
		lines, err := r.readPage(ctx, from, after, through)
		if err != nil {
			return &forkReadError{from, err}
		}
		if len(lines) == 0 {
			return nil
		}
		after = lines[len(lines)-1].Pos
		if err := f(lines); err != nil {
			return err
		}
	}
	return nil
}

// readPage returns the first lines after a position and up to another.
func (r *turnRecord) readPage(
	ctx context.Context, from session.Ref, after, through session.Pos,
) (lines []session.Line, err error) {
	read := func() error {
		lines = nil
		size := 0
		q := session.LineQuery{After: after, Archived: true}
		for line, err := range r.store.Read(ctx, from, q) {
			if err != nil || line.Pos > through {
				return err
			}
			lines = append(lines, line)
			size += heldBy(&line.Message)
			if len(lines) == maxForkLines || size > maxForkBytes {
				return nil
			}
		}
		return nil
	}
	err = r.retry(ctx, func() error { return attempt(read) })
	return lines, err
}

// A forkReadError is a requester's transcript that cannot be read. It is not the error that it
// tells: what is wrong is not wrong with the transcript of the turn.
type forkReadError struct {
	from session.Ref
	err  error
}

func (e *forkReadError) Error() string {
	return fmt.Sprintf("agent: reading the conversation of %q that the sub-agent begins with: %v",
		e.from.Key, e.err)
}

// bring copies the files that messages name from other transcripts, unless done has them. A file
// that is damaged, or that is not there, is left to those who open it.
func (r *turnRecord) bring(
	ctx context.Context, from []session.Ref, messages []Message, done map[session.File]bool,
) error {
	if r.files == nil || len(from) == 0 {
		return nil
	}
	if done == nil {
		done = make(map[session.File]bool)
	}
	for i := range messages {
		for _, f := range filesOf(&messages[i]) {
			if done[f] {
				continue
			}
			err := r.retry(ctx, func() error {
				return attempt(func() error { return errorOnly(r.bringFile(ctx, from, f)) })
			})
			if permanent(err) && ctx.Err() == nil {
				r.log.Warn("offshoot: a file of another conversation cannot be read",
					"session", r.ref.Key.String(), "file", f.Hash, "error", err.Error())
				err = nil
			}
			if err != nil {
				return fmt.Errorf("agent: copying a file of %q: %w", r.ref.Key, err)
			}
			done[f] = true
		}
	}
	return nil
}

// filesOf returns the files that a message names.
func filesOf(m *Message) (files []session.File) {
	if !m.Whole.IsZero() {
		files = append(files, m.Whole)
	}
	for _, p := range m.Parts {
		if !p.File.IsZero() {
			files = append(files, p.File)
		}
	}
	return files
}

// errorOnly returns the error of a call.
func errorOnly(_ bool, err error) error { return err }

// bringFile copies a file that the transcript does not have from the last of the others that has
// it, and reports whether one of them has it.
func (r *turnRecord) bringFile(
	ctx context.Context, from []session.Ref, f session.File,
) (found bool, err error) {
	all := append(slices.Clone(from), r.ref)
	for i, ref := range slices.Backward(all) {
		src, err := r.files.Open(ctx, ref, f.Hash)
		switch {
		case errors.Is(err, session.ErrNotFound):
			continue
		case err != nil:
			return false, err
		case i < len(from):
			_, err = r.files.Put(ctx, r.ref, src, f)
		}
		return true, errors.Join(err, src.Close())
	}
	return false, nil
}
