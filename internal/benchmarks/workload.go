package main

import (
	"context"
)

// A workload is one way to have children run and be told of their results.
type workload struct {
	name    string
	promise string // what holds when the result is there
	// open makes ready what that many requesters work with. dir is empty, and exists; a workload
	// in memory does not use it.
	open func(ctx context.Context, dir string, requesters int) (job, error)
}

// A job is a workload that is ready.
type job interface {
	// run has each requester run that many children, so many at a time, and returns when all have
	// been told of. A job of one requester is given that one.
	run(ctx context.Context, children, atATime int) error
	close(ctx context.Context) error
}

// answer is what each child comes to.
const answer = "done"

// task is what each child is told.
const task = "count the files"
