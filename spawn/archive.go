package spawn

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/few"
	"github.com/offshoot-sdk/offshoot/internal/secret"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/route"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// ErrNoRecord is returned by [Supervisor.Revive] for an archive that does not say what the session
// was: an earlier version has archived it, a transcript was damaged, or the Store had no Files or
// no Transcripts.
var ErrNoRecord = errors.New("spawn: the archive has no record of the session")

// archiveJob is a transcript that is to be archived.
type archiveJob struct {
	ref    session.Ref
	end    session.Pos // how far it is committed
	at     time.Time
	root   session.Key
	record *tree.Fact // the state of a sub-agent; nil of a conversation before a reset
	extra  []byte     // of a sub-agent, for Config.Tidy
	hold   *hold      // under which it is archived
}

// Archive implements owner.Executor. A caller that waits for the run reads how it ended first,
// unless a person wants the session to go.
func (sh *treeShell) Archive(gen uint64, t *tree.Tree, r *tree.Run) {
	key := r.Key()
	job := archiveJob{
		ref: session.Ref{Key: key, SessionID: r.Spec.SessionID}, end: session.Pos(r.Pos),
		root: t.Root().Key(), at: timeOf(r.Archiving), hold: sh.hold(),
	}
	done := tree.ArchiveDone{Run: key}
	if r.IsRoot() {
		x := r.Former[0]
		id := &job.ref.SessionID
		*id, job.end, job.at, done.Session = x.ID, session.Pos(x.Pos), timeOf(x.At), x.ID
	} else {
		job.record, job.extra = t.Record(r), r.Spec.Extra()
	}
	start := func() { sh.startArchive(gen, job, done) }
	if r.Discard || !sh.holdArchive(key, start) {
		start()
	}
}

// holdArchive keeps the start of an archive until no caller waits for the run any more. It returns
// false if none does.
func (sh *treeShell) holdArchive(key session.Key, start func()) bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if !sh.isWaitedFor(key) {
		return false
	}
	few.Put(&sh.heldArchives, key, start)
	return true
}

// isWaitedFor reports whether a caller waits for a run of a session. The caller holds the lock.
func (sh *treeShell) isWaitedFor(key session.Key) bool {
	for w := range sh.waiters {
		for ref := range w.members {
			if ref.Session == key {
				return true
			}
		}
	}
	return false
}

// releaseArchives starts the archives of sessions that no caller waits for any more.
func (sh *treeShell) releaseArchives() {
	sh.mu.Lock()
	var starts []func()
	for k, start := range sh.heldArchives {
		if !sh.isWaitedFor(k) {
			delete(sh.heldArchives, k)
			starts = append(starts, start)
		}
	}
	sh.mu.Unlock()
	for _, start := range starts {
		start()
	}
}

// startArchive archives in a task of its own, and tells the tree.
func (sh *treeShell) startArchive(gen uint64, job archiveJob, done tree.ArchiveDone) {
	sh.beside(job.hold, func(ctx context.Context, may error) {
		err := may
		if may == nil {
			err = contained(func() error { return sh.sup.archive(ctx, job) })
		}
		done.Failed = err != nil
		sh.owner.Send(gen, done)
		if err != nil && ctx.Err() == nil { // else the next owner archives it
			sh.sup.log.Warn("offshoot: archiving a transcript failed",
				"session", job.ref.Key.String(), "error", err.Error())
		}
	})
}

var errStoreExited = errors.New("spawn: the store ended its goroutine")

// archive archives a transcript and its files. A store without Transcripts or Files, and a
// transcript that does not exist, have nothing to archive. The tree has archive called again after
// an error.
func (s *Supervisor) archive(ctx context.Context, job archiveJob) (err error) {
	err = s.tidy(ctx, TidyRequest{
		Root: job.root, Session: job.ref.Key, Extra: job.extra, Archive: true,
	})
	if err != nil {
		return err
	}
	transcripts, files := s.cfg.Store.Transcripts, s.cfg.Store.Files
	if transcripts != nil {
		err = s.endTranscript(ctx, job)
		if err == nil {
			_, err = transcripts.Archive(ctx, job.ref, job.at)
		}
	}
	if files != nil && (err == nil || errors.Is(err, session.ErrNotFound)) {
		err = files.Archive(ctx, job.ref, job.at)
	}
	if errors.Is(err, session.ErrNotFound) {
		return nil
	}
	return err
}

// A recordFile is what the files of an archived sub-agent have of its session, as JSON. The note
// that ends the transcript names it.
type recordFile struct {
	Root    session.Key     `json:"root"`
	Session json.RawMessage `json:"session"` // the fact that brings it back
}

// recordName is the name of a recordFile in the note.
const recordName = "session.json"

// endTranscript has a transcript end as its archive is to. One that has no line is begun before
// the record of the session is kept, and if it has files, as that of a session that the caller runs
// may, which gives files to sub-agents. A purge finds files by their transcript. A transcript that
// is archived, damaged or of a newer version stays as it is, without an error, but for one whose
// record is of a time before the session was last brought back.
func (s *Supervisor) endTranscript(ctx context.Context, job archiveJob) error {
	ts := s.cfg.Store.Transcripts
	last, err := lastLine(ctx, ts, job.ref, false)
	if errors.Is(err, session.ErrArchived) {
		if err = s.takeBack(ctx, job); err == nil {
			last, err = lastLine(ctx, ts, job.ref, false)
		}
	}
	begins := false
	if err == nil && last.Pos == 0 && s.cfg.Store.Files != nil {
		if begins = job.record != nil; !begins {
			begins, err = hasFiles(ctx, s.cfg.Store.Files, job.ref)
		}
	}
	if begins {
		last.Message = session.Fence(job.end, job.at)
		last.Pos, err = ts.Append(ctx, job.ref, 0, last.Message)
	}
	if err != nil {
		return unlessItStays(err)
	}
	record, err := s.putRecord(ctx, job)
	if err != nil {
		return err
	}
	return unlessItStays(fenceOff(ctx, ts, job, last, record))
}

// takeBack restores an archive that a former process has made late, after the session was brought
// back and asked again: one with the record of fewer turns. One that has no record stays.
func (s *Supervisor) takeBack(ctx context.Context, job archiveJob) error {
	if job.record == nil {
		return nil
	}
	_, archived, err := s.readRecord(ctx, job.ref)
	switch {
	case errors.Is(err, ErrNoRecord) || errors.Is(err, ErrNotFound):
		return nil
	case err != nil:
		return err
	case archived.Image().Runs[0].Turns < job.record.Image().Runs[0].Turns:
		return s.restore(ctx, job.ref)
	}
	return nil
}

// hasFiles reports whether a transcript has files.
func hasFiles(ctx context.Context, files session.Files, ref session.Ref) (bool, error) {
	for _, err := range files.List(ctx, ref) {
		return err == nil, err
	}
	return false, nil
}

// putRecord puts the record of a session among its files, and returns its name. It returns the zero
// File if the Store has no Files, if there is no record, and for a transcript that is archived: an
// earlier attempt has done it.
func (s *Supervisor) putRecord(ctx context.Context, job archiveJob) (f session.File, err error) {
	if job.record == nil || s.cfg.Store.Files == nil {
		return f, nil
	}
	x := recordFile{Root: job.root}
	if x.Session, err = job.record.AppendJSON(nil); err != nil {
		return f, err
	}
	data, err := json.Marshal(x)
	if err != nil {
		return f, err
	}
	f, err = s.cfg.Store.Files.Put(ctx, job.ref, bytes.NewReader(data), session.File{})
	if errors.Is(err, session.ErrArchived) {
		err = nil
	}
	return f, err
}

// fenceOff has a transcript end with a note that names the record, if there is one. The note is a
// fence, also without a record if the transcript has lines behind its end: where a transcript is
// committed is known as long as its run is in the tree, and the fence says it from then on. last is
// its last line.
func fenceOff(
	ctx context.Context, ts session.Transcripts, job archiveJob, last session.Line,
	record session.File,
) (err error) {
	note := session.Fence(job.end, job.at)
	isFence := last.Message.Role == session.MessageNote && last.Message.Discard <= job.end
	wanted := last.Pos > job.end && !isFence
	if !record.IsZero() {
		note.Parts = []session.Part{{
			Kind: session.PartFile, MediaType: "application/json", Name: recordName, File: record,
		}}
		wanted = recordOf(last) != record
	}
	if wanted {
		_, err = ts.Append(ctx, job.ref, last.Pos, note)
	}
	return err
}

// unlessItStays returns err, or nil if it says that a transcript stays as it is.
func unlessItStays(err error) error {
	for _, stays := range []error{
		session.ErrArchived, session.ErrNotFound, session.ErrCorrupt, session.ErrFormat,
	} {
		if errors.Is(err, stays) {
			return nil
		}
	}
	return err
}

// lastLine returns the last line of a transcript, or the zero Line.
func lastLine(
	ctx context.Context, ts session.Transcripts, ref session.Ref, archived bool,
) (last session.Line, err error) {
	q := session.LineQuery{Last: 1, Archived: archived}
	for line, rerr := range ts.Read(ctx, ref, q) {
		last, err = line, rerr
	}
	return last, err
}

// recordOf returns the record that a line names, or the zero File.
func recordOf(line session.Line) session.File {
	if line.Message.Role == session.MessageNote {
		for _, p := range line.Message.Parts {
			if p.Name == recordName {
				return p.File
			}
		}
	}
	return session.File{}
}

// readRecord returns what the archive of a sub-agent says of its session, and the tree that it
// belongs to.
func (s *Supervisor) readRecord(
	ctx context.Context, ref session.Ref,
) (root session.Key, state *tree.Fact, err error) {
	store := s.cfg.Store
	if store.Transcripts == nil {
		return root, nil, fmt.Errorf("%w: %q", ErrNotFound, ref.Key)
	}
	last, err := lastLine(ctx, store.Transcripts, ref, true)
	record := recordOf(last)
	switch {
	case err != nil:
		return root, nil, err
	case last.Pos == 0:
		return root, nil, fmt.Errorf("%w: %q", ErrNotFound, ref.Key)
	case store.Files == nil:
		return root, nil, fmt.Errorf("%w: %q: %w", ErrNoRecord, ref.Key, session.ErrNoFiles)
	case record.IsZero():
		return root, nil, fmt.Errorf("%w: %q", ErrNoRecord, ref.Key)
	}
	data, err := session.ReadFile(ctx, store.Files, ref, record)
	if err != nil && !errors.Is(err, session.ErrNotFound) && !errors.Is(err, session.ErrCorrupt) {
		return root, nil, err // it may be read later
	}
	var x recordFile
	if err == nil {
		err = json.Unmarshal(data, &x)
	}
	if err == nil {
		state, err = tree.DecodeFact(x.Session)
	}
	if err != nil {
		return root, nil, fmt.Errorf("%w: %q: %w", ErrNoRecord, ref.Key, err)
	}
	if state.Kind != tree.Unarchived || state.Run != ref.Key || !isTree(x.Root) {
		return root, nil, fmt.Errorf("%w: %q: it is that of another session", ErrNoRecord, ref.Key)
	}
	return x.Root, state, nil
}

// lockArchives has other calls wait that take archives away or bring them back, until unlock.
func (s *Supervisor) lockArchives(ctx context.Context) (unlock func(), err error) {
	select {
	case s.archives <- struct{}{}:
		return func() { <-s.archives }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-s.workCtx.Done():
		return nil, ErrShutdown
	}
}

// Revive brings an archived sub-agent back into its tree, with its conversation, its files and its
// runs as they were. From then on a message begins another run of it, see [Supervisor.Post]. It may
// do what it was granted, under the rules of today. What it has used counts with its requester, and
// is not counted twice. Its archive counts from now; one that was to be deleted after its end stays
// as long as the others. Its spawn key leads to it again, unless another run has it now.
//
// Revive returns when that is durable. For a session that is in the tree it does nothing. It waits
// for an archive that is under way. A revival that fails in between, that a DeleteSession meets, or
// whose process dies, leaves the session archived, and the call is repeated. One whose ctx ends
// goes on.
//
// The error is [ErrNotFound] for a session that never was, or whose archive was purged; an
// *[EndedError], which names the topmost session above it that has ended; [session.ErrArchived],
// which names the session above it that is archived, or the session itself if that was deleted
// meanwhile; [ErrNoRecord] if the archive does not say what the session was, and with it
// [session.ErrNoFiles] if the Store has no Files; that of the store, or one that every command can
// return.
func (s *Supervisor) Revive(ctx context.Context, key session.Key) error {
	root, err := s.reviveHere(ctx, key)
	if s.elsewhere(ctx, root, err) {
		defer turnOf(ctx).pause()()
		_, err = s.cluster.route(ctx, root, &route.Revive{Session: key}, err, nil,
			func(bool) error {
				_, err := s.reviveHere(ctx, key)
				return err
			})
	}
	return repeatable(err, repeatAsIs)
}

// reviveHere is Revive in a tree of this process, which is root.
func (s *Supervisor) reviveHere(
	ctx context.Context, key session.Key,
) (root session.Key, err error) {
	root, there, err := s.awaitArchive(ctx, key)
	if there || err != nil {
		return root, unrecorded(ctx, err)
	}
	unlock, err := s.lockArchives(ctx)
	if err != nil {
		return root, fmt.Errorf("%w: reviving %q: %w", ErrNotRecorded, key, err)
	}
	defer unlock()
	ref := session.Ref{Key: key, SessionID: key.ID()}
	type record struct {
		root  session.Key
		state *tree.Fact
	}
	read := make(chan record, 1)
	err = s.inStore(ctx, func(ctx context.Context) error {
		root, state, err := s.readRecord(ctx, ref)
		read <- record{root, state}
		return err
	}, nil)
	if err != nil {
		return root, failedStore(err)
	}
	found := <-read
	return found.root, s.revive(ctx, found.root, &tree.Revive{State: found.state})
}

// A revival is an archived session that a caller brings back.
type revival struct {
	err error // of the store; the lock of the shell guards it
}

// revive has a session be in its tree again, and returns when it is in use.
func (s *Supervisor) revive(ctx context.Context, root session.Key, cmd *tree.Revive) error {
	key, own := cmd.State.Run, new(revival)
	sh := s.keepShell(root, func(sh *treeShell) {
		few.Put(&sh.revivals, key, own)
	})
	defer func() {
		sh.mu.Lock()
		delete(sh.revivals, key)
		sh.mu.Unlock()
	}()
	if err := s.do(ctx, root, cmd, nil); err != nil {
		return err
	}
	back := false
	defer turnOf(ctx).pause()()
	err := s.await(ctx, root, func(t *tree.Tree) bool {
		r := t.Run(key)
		back = r.IsBack()
		return !r.IsUnderWay()
	})
	switch {
	case err != nil:
		return fmt.Errorf("%w: reviving %q: %w", ErrUnconfirmed, key, err)
	case back:
		return nil
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if own.err != nil && !errors.Is(own.err, ErrNotFound) {
		return fmt.Errorf("%w: reviving %q: %w", ErrUnconfirmed, key, own.err)
	}
	if own.err != nil {
		return own.err
	}
	return fmt.Errorf("%w: %w: reviving %q, which was archived again", session.ErrArchived,
		ErrNotFound, key)
}

// Restore implements owner.Executor.
func (sh *treeShell) Restore(gen uint64, r *tree.Run) {
	ref := session.Ref{Key: r.Key(), SessionID: r.Spec.SessionID}
	sh.beside(sh.hold(), func(ctx context.Context, may error) {
		err := may
		if may == nil {
			err = contained(func() error { return sh.sup.restore(ctx, ref) })
		}
		sh.mu.Lock()
		if own := sh.revivals[ref.Key]; own != nil {
			own.err = err
		}
		sh.mu.Unlock()
		sh.owner.Send(gen, tree.RestoreDone{Run: ref.Key, Failed: err != nil})
	})
}

// restore takes an archived transcript and its files into use again.
func (s *Supervisor) restore(ctx context.Context, ref session.Ref) error {
	err := s.cfg.Store.Transcripts.Restore(ctx, ref)
	if err == nil && s.cfg.Store.Files != nil {
		err = s.cfg.Store.Files.Restore(ctx, ref)
	}
	if errors.Is(err, session.ErrNotFound) {
		return fmt.Errorf("%w: %q: %w", ErrNotFound, ref.Key, err)
	}
	return err
}

// awaitArchive waits for the end of the archive of a session that is under way, and reports whether
// the session is in its tree, which is root.
func (s *Supervisor) awaitArchive(
	ctx context.Context, key session.Key,
) (root session.Key, there bool, err error) {
	root, err = s.RootOf(ctx, key)
	if errors.Is(err, ErrNotFound) {
		return root, false, nil
	}
	if err != nil {
		return root, false, err
	}
	defer turnOf(ctx).pause()()
	err = s.await(ctx, root, func(t *tree.Tree) bool {
		r := t.Run(key)
		there = r.IsBack()
		return r == nil || there
	})
	return root, there, err
}

// await waits until something holds for a tree, of which it looks after every batch.
func (s *Supervisor) await(
	ctx context.Context, root session.Key, holds func(*tree.Tree) bool,
) error {
	wake := make(chan struct{}, 1)
	sh := s.keepShell(root, func(sh *treeShell) { sh.idlers.Set(wake, struct{}{}) })
	defer sh.endIdle(wake)
	for {
		done := false
		read := func(t *tree.Tree, _ tree.Reply) { done = holds(t) }
		err := sh.owner.Await(ctx, nil, read)
		if s.elsewhere(ctx, root, err) {
			return s.follow(ctx, root, nil, nil, holds)
		}
		if err != nil || done {
			return err
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.closed:
			return ErrShutdown
		}
	}
}

// DeleteSession archives the session key and everything below it, as soon as that may be, whatever
// Rules.Subagents.ArchiveAfter says. What is alive is stopped first, as [Supervisor.Stop] does, and
// what is bound to the sessions is unbound. The requester of the session is told of its end if it
// would be told of a stop. What waits to be delivered is delivered. A completion that is blocked,
// or becomes so, is dismissed, and its result is in the archive. A top-level session goes on in a
// new conversation, as after [Supervisor.Reset], with what people have posted and it has not read.
//
// DeleteSession returns when all of that is archived. That it is to be is durable before anything
// happens, so that a crash or the end of ctx does not call it off: the next owner of the tree goes
// on. Under the ctx of a turn of the tree, of a delivery or of a hook it returns when it is
// durable, since the archive may wait for what calls it. An archive that fails is tried again after
// 15 seconds, and then after pauses that double up to five minutes, without an end; another call
// does not hasten that, and a new owner tries at once.
//
// The error is [ErrNotFound] for a session that is not on record, an *[InputError] for one whose
// own turn calls it, or a turn below it, and [ErrUnconfirmed] if something ends the wait: beside
// the cause of ctx, [ErrShutdown], or what has become of the journal. Else it is one that every
// command can return.
func (s *Supervisor) DeleteSession(
	ctx context.Context, root, key session.Key, reason string,
) error {
	if t := turnOf(ctx); t != nil && (t.Session.Key == key || slices.Contains(t.Above, key)) {
		return &InputError{Field: "session", Reason: "its own turn would wait for its own end"}
	}
	err := s.deleteHere(ctx, root, key, reason)
	if s.elsewhere(ctx, root, err) {
		op := &route.Delete{Session: key}
		op.Reason = tree.Text(text.Bound(reason, secret.MaxText))
		defer turnOf(ctx).pause()()
		_, err = s.cluster.route(ctx, root, op, err, nil, func(bool) error {
			return s.deleteHere(ctx, root, key, reason)
		})
	}
	return repeatable(err, repeatAsIs)
}

// deleteHere is DeleteSession in a tree of this process.
func (s *Supervisor) deleteHere(
	ctx context.Context, root, key session.Key, reason string,
) error {
	known := false
	read := func(t *tree.Tree, _ tree.Reply) {
		r := t.Run(key)
		known = r != nil && r.Spec.SessionID != ""
	}
	if err := s.do(ctx, root, nil, read); err != nil {
		return unrecorded(ctx, err)
	}
	if !known {
		return fmt.Errorf("%w: deleting %q", ErrNotFound, key)
	}
	cmd := &tree.Discard{Run: key, Reason: text.Bound(reason, secret.MaxText), Rand: s.ids.rand()}
	if err := s.do(ctx, root, cmd, nil); err != nil {
		return err
	}
	if within(ctx, root) {
		return nil
	}
	defer turnOf(ctx).pause()()
	err := s.await(ctx, root, func(t *tree.Tree) bool { return !t.Discarding(key) })
	if err != nil {
		err = fmt.Errorf("%w: deleting %q: %w", ErrUnconfirmed, key, err)
	}
	return err
}

// purgeEvery is how many sweeps apart a running Supervisor purges archives. The first one does, so
// that a program that runs shortly each time purges too.
const purgeEvery = 60

// Purge removes what was archived longer ago than Rules.KeepArchives, for good: transcripts and
// their files. It returns how many transcripts it has removed. Zero keeps archives for ever, and
// then Purge does nothing. A running Supervisor does it a minute after Run has begun, and then
// every hour.
//
// What a tree still names stays: a session that is in it, and a run whose outcome is kept for its
// key. So does what cannot be read, which is part of the error. The other errors are those of the
// store, the cause of ctx, and [ErrShutdown]. If either came before the call, it is
// [ErrNotRecorded] as well, as of every command: nothing was removed, and Purge may be called
// again.
func (s *Supervisor) Purge(ctx context.Context) (removed int, err error) {
	select {
	case <-s.closed:
		return 0, fmt.Errorf("%w: purging archives: %w", ErrNotRecorded, ErrShutdown)
	case <-ctx.Done():
		return 0, fmt.Errorf("%w: purging archives: %w", ErrNotRecorded, context.Cause(ctx))
	default:
	}
	keep := s.rules.Load().KeepArchives
	transcripts := s.cfg.Store.Transcripts
	if keep <= 0 || transcripts == nil {
		return 0, nil
	}
	var old []session.Archived
	var errs []error
	err = contained(func() error {
		for a, err := range transcripts.Archives(ctx, s.now().Add(-keep)) {
			if err != nil {
				return err
			}
			old = append(old, a)
		}
		return nil
	})
	p := purge{sup: s, named: make(map[session.Key]map[session.Key]bool)}
	for _, a := range old {
		if ctx.Err() != nil {
			break
		}
		done := false
		each := contained(func() (err error) {
			done, err = p.remove(ctx, a.Ref)
			return err
		})
		if done {
			removed++
		}
		if each != nil {
			errs = append(errs, fmt.Errorf("spawn: purging the archive of %q: %w", a.Ref.Key, each))
		}
	}
	if cause := context.Cause(ctx); cause != nil {
		return removed, cause
	}
	return removed, errors.Join(append(errs, err)...)
}

// purge is one call of Purge.
type purge struct {
	sup   *Supervisor
	named map[session.Key]map[session.Key]bool // the sessions that each tree names
}

// remove removes an archive, and reports whether it has. The files go first: without the transcript
// no later purge would find them.
func (p purge) remove(ctx context.Context, ref session.Ref) (done bool, err error) {
	unlock, err := p.sup.lockArchives(ctx)
	if err != nil {
		return false, err
	}
	defer unlock()
	store := p.sup.cfg.Store
	_, err = lastLine(ctx, store.Transcripts, ref, false)
	if !errors.Is(err, session.ErrArchived) {
		return false, err // it was brought back meanwhile
	}
	if names, err := p.names(ctx, ref); names || err != nil {
		return false, err
	}
	if store.Files != nil {
		err = store.Files.Remove(ctx, ref)
	}
	if err == nil {
		err = store.Transcripts.Remove(ctx, ref)
	}
	return err == nil, err
}

// names reports whether a tree still names an archived session. Of an archive without a record no
// tree does: only a session that a record was made of has left an outcome.
func (p purge) names(ctx context.Context, ref session.Ref) (bool, error) {
	if !ref.Key.IsSubagent() {
		return false, nil
	}
	root, _, err := p.sup.readRecord(ctx, ref)
	if errors.Is(err, ErrNoRecord) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	named, known := p.named[root]
	if !known {
		if named, err = p.sup.namedBy(ctx, root); err != nil {
			return false, err
		}
		p.named[root] = named
	}
	return named[ref.Key], nil
}

// namedBy returns the sessions that a tree names. It opens no tree that is not in memory, which
// another process may own.
func (s *Supervisor) namedBy(
	ctx context.Context, root session.Key,
) (named map[session.Key]bool, err error) {
	now := s.now().UnixNano()
	there, err := withShell(s, root, func(sh *treeShell) (bool, error) {
		return sh.owner.Peek(ctx, func(t *tree.Tree) { named = t.Named(now) })
	})
	if there || err != nil {
		return named, err
	}
	v := viewer{root: root}
	open, cancel := s.untilClosed(ctx)
	defer cancel()
	if err := v.read(s.reads.Read(open, root, 0)); err != nil {
		return nil, err
	}
	return v.tree.Named(now), nil
}
