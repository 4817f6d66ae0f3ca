package pgstore

import (
	"context"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
)

// Schema returns the schema of a Store.
func Schema(s *session.Store) string { return s.Journal.(journal).schema }

// Schema1 is what has made the tables of version 1.
var Schema1 = schemaSQL

// A Ledger is the ledger of a Store with Owners.
type Ledger struct{ l ledger }

// LedgerOf returns the ledger of a Store.
func LedgerOf(s *session.Store) Ledger { return Ledger{s.Owners.(*owners).ledger} }

func (l Ledger) NewProcess(ctx context.Context, name string) (session.Process, error) {
	return l.l.newProcess(ctx, name)
}

func (l Ledger) Beat(
	ctx context.Context, p session.Process, d time.Duration, known []uint64,
) ([]session.Claim, bool, error) {
	return l.l.Beat(ctx, p, d, known)
}

func (l Ledger) Claim(
	ctx context.Context, p session.Process, d time.Duration, root session.Key,
) (session.Claim, error) {
	c, _, err := l.l.Claim(ctx, p, d, root, true)
	return c, err
}

func (l Ledger) Release(ctx context.Context, p session.Process, c session.Claim) error {
	return l.l.Release(ctx, p, c)
}

func (l Ledger) Leave(ctx context.Context, p session.Process) error {
	return l.l.Leave(ctx, p, false)
}

func (l Ledger) Ask(ctx context.Context, r session.Request) error {
	_, err := l.l.Ask(ctx, r)
	return err
}

func (l Ledger) Take(
	ctx context.Context, p session.Process, known []string,
) ([]session.Request, error) {
	return l.l.Take(ctx, p, known)
}

func (l Ledger) Answer(
	ctx context.Context, p session.Process, request string, answer []byte,
) error {
	return l.l.Answer(ctx, p, request, answer)
}

func (l Ledger) Outcome(ctx context.Context, id string) ([]byte, bool, error) {
	return l.l.Outcome(ctx, id)
}

func (l Ledger) Orphans(ctx context.Context) ([]session.Key, error) {
	roots, _, _, err := l.l.Orphans(ctx, 0)
	return roots, err
}

func (l Ledger) Sweep(ctx context.Context) error { return l.l.Sweep(ctx) }

// StopWhile has a Store stand still for a time in a transaction that has locked a row.
func StopWhile(ctx context.Context, s *session.Store, d time.Duration, lock string) error {
	j := s.Journal.(journal)
	return j.change(ctx, func(ctx context.Context, q querier) error {
		if _, err := q.Exec(ctx, j.sql(lock)); err != nil {
			return err
		}
		time.Sleep(d)
		_, err := q.Exec(ctx, `select 1`)
		return err
	})
}
