package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"

	_ "modernc.org/sqlite" // the driver
)

// sqliteJob keeps children in a table, with three transactions for each: that it is to run, what
// came of it, and that it was told. It has one connection, as a program that writes has to.
type sqliteJob struct {
	db         *sql.DB
	requesters int
	last       atomic.Int64 // id of a child
}

const sqliteSchema = `CREATE TABLE children (
	id INTEGER PRIMARY KEY, requester INTEGER NOT NULL, task TEXT NOT NULL,
	status TEXT NOT NULL, result TEXT, told INTEGER NOT NULL DEFAULT 0
)`

func openSQLite(ctx context.Context, dir string, requesters int) (job, error) {
	at := filepath.Join(dir, "children.db")
	db, err := sql.Open("sqlite",
		"file:"+at+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	if _, err = db.ExecContext(ctx, sqliteSchema); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &sqliteJob{db: db, requesters: requesters}, nil
}

func (j *sqliteJob) run(ctx context.Context, children, _ int) error {
	return together(j.requesters, func(requester int) error {
		for range children {
			if err := j.child(ctx, requester); err != nil {
				return err
			}
		}
		return nil
	})
}

func (j *sqliteJob) child(ctx context.Context, requester int) error {
	id := j.last.Add(1)
	for _, step := range []struct {
		query string
		args  []any
	}{
		{
			"INSERT INTO children (id, requester, task, status) VALUES (?, ?, ?, 'queued')",
			[]any{id, requester, task},
		},
		{"UPDATE children SET status = 'succeeded', result = ? WHERE id = ?", []any{answer, id}},
		{"UPDATE children SET told = 1 WHERE id = ?", []any{id}},
	} {
		done, err := j.db.ExecContext(ctx, step.query, step.args...)
		if err != nil {
			return err
		}
		if n, err := done.RowsAffected(); err != nil || n != 1 {
			return fmt.Errorf("%d rows were changed: %w", n, err)
		}
	}
	return nil
}

func (j *sqliteJob) close(context.Context) error { return j.db.Close() }
