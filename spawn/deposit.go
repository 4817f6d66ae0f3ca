package spawn

import (
	"context"
	"io"
	"sync/atomic"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// A Deposit is where the files of a child are put before it is spawned, see [Supervisor.Deposit].
type Deposit struct {
	// ID is that of the child, for the Request that spawns it.
	ID RunID
	// Ref is the transcript of the child. It is zero if the Key of the request is known: nothing is
	// put then, and the Spawn that follows says whether it is that request.
	Ref session.Ref

	sup  *Supervisor
	puts *puts
}

// Put puts the bytes of r into the files of the child. It returns when ctx ends, and when the hard
// phase of a shutdown begins, also if the store or r does not: then the goroutine that puts them is
// one of the Supervisor, and the files are removed when it has returned.
//
// The error is that of the store or of r, the cause of ctx, or [ErrShutdown], and [ErrNotRecorded],
// too. Put must not be called when Ref is zero, or after the call that was given the Deposit.
func (d Deposit) Put(ctx context.Context, r io.Reader) (session.File, error) {
	d.puts.left.Add(1)
	f, err := d.sup.putFile(ctx, d.Ref, r, d.puts.leave)
	return f, unrecordedAnyway(err)
}

// puts counts the calls that put files for a deposit, and the one that has begun it. The last one
// calls over.
type puts struct {
	left atomic.Int32
	over func()
}

func (p *puts) leave() {
	if p.left.Add(-1) == 0 {
		p.over()
	}
}

// Deposit has the files of a child be put where they are its own, before it exists. It decides the
// request as Spawn does with Dry and Files, and records that files of the child are being put. Then
// it calls with, once, which puts them with [Deposit.Put] and spawns the child: by the same request
// with Files, the ID of the Deposit, and a Variant that tells the files apart.
//
// When with has returned and has not spawned the child, for whatever reason, the files are removed.
// That goes on after Deposit has returned. If the process dies, or that of the tree if another one
// has it, the next owner of the tree removes them.
//
// The error is what with returns. Else with was not called, and it is [session.ErrNoFiles] if the
// Store has no Files, or one of Spawn. The Spawn within with returns [ErrNotRecorded] if another
// owner has taken the tree in between, or if the Key is not known any more: then the files can be
// put once more.
func (s *Supervisor) Deposit(
	ctx context.Context, root, requester session.Key, q Request, with func(Deposit) error,
) error {
	_, err := withShell(s, root, func(sh *treeShell) (struct{}, error) {
		return struct{}{}, sh.deposit(ctx, requester, q, nil, with)
	})
	return err
}

// Deposit has the files of a child be put before it is spawned by [TurnInput.Spawn], as
// [Supervisor.Deposit] does. The errors are [ErrStale] and those of that.
func (t *TurnInput) Deposit(ctx context.Context, q Request, with func(Deposit) error) error {
	if err := t.Err(); err != nil {
		return err
	}
	return t.shell.deposit(ctx, t.Session.Key, q, t, with)
}

// deposit begins a deposit and calls with. by is the turn of the requester, or nil.
func (sh *treeShell) deposit(
	ctx context.Context, requester session.Key, q Request, by *TurnInput,
	with func(Deposit) error,
) error {
	if sh.sup.cfg.Store.Files == nil {
		return session.ErrNoFiles
	}
	if q.ID == "" {
		q.ID = RunID(sh.sup.ids.newID())
	}
	q.Dry, q.Files, q.deposits, q.Bind = true, true, true, session.Route{}
	root, there := sh.owner.Root(), false
	// Also after an error: the deposit may be recorded later.
	all := &puts{over: func() {
		if there {
			sh.sup.abandonThere(root, string(q.ID))
		} else {
			sh.owner.SendIfThere(tree.Abandon{ID: string(q.ID)})
		}
	}}
	all.left.Add(1)
	defer all.leave()
	known, err := sh.spawn(ctx, requester, q, by)
	if there = by == nil && sh.sup.elsewhere(ctx, root, err); there {
		known, err = sh.sup.depositThere(ctx, root, requester, &q, err)
	}
	if err != nil {
		return err
	}
	to := Deposit{ID: q.ID, sup: sh.sup, puts: all}
	if known.ID == "" {
		to.Ref = session.Ref{Key: known.Key, SessionID: known.Key.ID()}
	}
	return with(to)
}

// Drop implements owner.Executor.
func (sh *treeShell) Drop(gen uint64, d tree.DroppedDeposit) {
	sh.beside(sh.hold(), func(ctx context.Context, may error) {
		err := may
		if may == nil {
			err = contained(func() error { return sh.sup.drop(ctx, d) })
		}
		sh.owner.Send(gen, tree.DropDone{Run: d.Run, Failed: err != nil})
		if err != nil && ctx.Err() == nil { // else the next owner removes them
			sh.sup.log.Warn("offshoot: removing the files of a spawn that was refused failed",
				"session", d.Run.String(), "error", sh.sup.errorText(err))
		}
	})
}

// drop removes the files of a child that was not spawned. Those that a former owner may still be
// putting are kept out first: the transcript is begun, and archived without files.
func (s *Supervisor) drop(ctx context.Context, d tree.DroppedDeposit) (err error) {
	ref := session.Ref{Key: d.Run, SessionID: d.Run.ID()}
	if s.cfg.Store.Transcripts != nil && !d.Own {
		err = s.bar(ctx, ref, timeOf(d.At))
	}
	if err == nil && s.cfg.Store.Files != nil {
		err = s.cfg.Store.Files.Remove(ctx, ref)
	}
	return err
}

// bar archives the transcript of a session that will not be. Each attempt does the same.
func (s *Supervisor) bar(ctx context.Context, ref session.Ref, at time.Time) error {
	ts := s.cfg.Store.Transcripts
	last, err := lastLine(ctx, ts, ref, false)
	if err == nil && last.Pos == 0 {
		_, err = ts.Append(ctx, ref, 0, session.Fence(0, at))
	}
	if err = unlessItStays(err); err == nil {
		_, err = ts.Archive(ctx, ref, at)
	}
	return err
}
