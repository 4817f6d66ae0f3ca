package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing/fstest"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// deliveries count what is delivered to each requester.
type deliveries map[session.Key]*sync.WaitGroup

func requesterKeys(n int) []session.Key {
	keys := make([]session.Key, n)
	for i := range keys {
		keys[i] = session.Must(session.NamedKey("main", fmt.Sprint("requester-", i)))
	}
	return keys
}

func newDeliveries(keys []session.Key) deliveries {
	d := make(deliveries)
	for _, key := range keys {
		d[key] = new(sync.WaitGroup)
	}
	return d
}

// run has each of the requesters spawn children, so many at a time, and waits for their deliveries.
func (d deliveries) run(
	keys []session.Key, children, atATime int, spawn func(session.Key) error,
) error {
	return together(len(keys), func(i int) error {
		told := d[keys[i]]
		for n := 0; n < children; n += atATime {
			for range min(atATime, children-n) {
				told.Add(1)
				if err := spawn(keys[i]); err != nil {
					return err
				}
			}
			told.Wait()
		}
		return nil
	})
}

// rules lift the limits as far as they go.
func rules(requesters int) policy.Rules {
	return policy.Rules{Subagents: policy.Subagents{
		MaxChildren: policy.MaxChildren, MaxConcurrent: max(requesters, 8),
	}}
}

// openStore opens a directory as a store, or one in memory for "".
func openStore(dir string) (*session.Store, func() error, error) {
	if dir == "" {
		return session.NewMemory(), func() error { return nil }, nil
	}
	store, err := dirstore.Open(dir)
	if err != nil {
		return nil, nil, err
	}
	return store, store.Close, nil
}

// spawnJob is package spawn: the tree, its journal and the delivery, without prompts.
type spawnJob struct {
	sup        *spawn.Supervisor
	keys       []session.Key
	told       deliveries
	over       chan error
	closeStore func() error
}

// openSpawn returns how a spawnJob is opened, in its directory or in memory.
func openSpawn(onDisk bool) func(context.Context, string, int) (job, error) {
	return func(ctx context.Context, dir string, requesters int) (job, error) {
		if !onDisk {
			dir = ""
		}
		store, closeStore, err := openStore(dir)
		if err != nil {
			return nil, err
		}
		keys := requesterKeys(requesters)
		j := &spawnJob{
			keys: keys, told: newDeliveries(keys), over: make(chan error, 1),
			closeStore: closeStore,
		}
		j.sup, err = spawn.Open(ctx, spawn.Config{
			Store: store, Runner: instant{}, CallerRun: true, Rules: rules(requesters),
			Deliver: func(_ context.Context, out spawn.Delivery) error {
				j.told[out.To].Done()
				return nil
			},
		})
		if err != nil {
			return nil, errors.Join(err, closeStore())
		}
		go func() { j.over <- j.sup.Run(ctx) }()
		return j, nil
	}
}

// instant is a Runner whose turns are over at once.
type instant struct{}

func (instant) RunTurn(context.Context, *spawn.TurnInput) (spawn.TurnResult, error) {
	return spawn.TurnResult{Result: spawn.Result{Text: answer}}, nil
}

func (j *spawnJob) run(ctx context.Context, children, atATime int) error {
	return j.told.run(j.keys, children, atATime, func(key session.Key) error {
		_, err := j.sup.Spawn(ctx, key, key, spawn.Request{Task: task, Announce: true})
		return err
	})
}

func (j *spawnJob) close(ctx context.Context) error {
	return errors.Join(j.sup.Shutdown(ctx), <-j.over, j.closeStore())
}

// agentJob is package agent: spawn, with a prompt and a transcript for each child.
type agentJob struct {
	rt         *agent.Runtime
	keys       []session.Key
	told       deliveries
	over       chan error
	closeStore func() error
}

// openAgent returns how an agentJob is opened, in its directory or in memory.
func openAgent(onDisk bool) func(context.Context, string, int) (job, error) {
	return func(ctx context.Context, dir string, requesters int) (job, error) {
		if !onDisk {
			dir = ""
		}
		store, closeStore, err := openStore(dir)
		if err != nil {
			return nil, err
		}
		keys := requesterKeys(requesters)
		j := &agentJob{
			keys: keys, told: newDeliveries(keys), over: make(chan error, 1),
			closeStore: closeStore,
		}
		j.rt, err = agent.Open(ctx, agent.Config{
			Store: store, Rules: rules(requesters), Workspace: fstest.MapFS{
				"AGENTS.md": {Data: []byte("Work as you are told.")},
				"TOOLS.md":  {Data: []byte("There are no tools.")},
			},
			Runner: agent.RunnerFunc(func(context.Context, *agent.Turn) (agent.Result, error) {
				return agent.Result{Text: answer}, nil
			}),
			Deliver: func(_ context.Context, out agent.Delivery) error {
				j.told[out.To].Done()
				return nil
			},
		})
		if err != nil {
			return nil, errors.Join(err, closeStore())
		}
		go func() { j.over <- j.rt.Run(ctx) }()
		return j, nil
	}
}

func (j *agentJob) run(ctx context.Context, children, atATime int) error {
	return j.told.run(j.keys, children, atATime, func(key session.Key) error {
		_, err := j.rt.Session(key).Spawn(ctx, agent.Task{Text: task, Announce: true})
		return err
	})
}

func (j *agentJob) close(ctx context.Context) error {
	return errors.Join(j.rt.Shutdown(ctx), <-j.over, j.closeStore())
}
