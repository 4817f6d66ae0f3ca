package agenttest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/binding"
)

// TestThreads checks that a ThreadHost keeps to its contract: it has it create threads in the
// conversation in, which must be one of a channel for tests, and speak in them. Each rule is a
// subtest.
//
//  1. A thread has a complete Route, on the channel and account of the conversation, that is not
//     the conversation itself.
//  2. One thread is created under a Key, also by calls at the same time.
//  3. Two Keys are two threads.
//  4. A farewell is accepted, and again under the same Key.
//  5. A thread that was created is open, or it is not known what has become of it.
//  6. A thread that was never created is not open.
//  7. Calls whose context has ended return.
//
// run makes the ids of a run of the test its own, so that it can be repeated on a channel that
// remembers them. A channel in memory may leave it empty.
func TestThreads(t *testing.T, host agent.ThreadHost, in session.Route, run string) {
	t.Helper()
	k := &threadKit{host: host, in: in.Clean(), run: run}
	for _, rule := range k.rules() {
		t.Run(rule.name, func(t *testing.T) { rule.check(t) })
	}
}

// A threadRule is one rule of the contract of a ThreadHost.
type threadRule struct {
	name  string
	check func(t testing.TB)
}

func (k *threadKit) rules() []threadRule {
	return []threadRule{
		{"1 route", k.route},
		{"2 one thread for one key", k.oneKey},
		{"3 two threads for two keys", k.twoKeys},
		{"4 farewell", k.farewell},
		{"5 open", k.open},
		{"6 unknown", k.unknown},
		{"7 context", k.ended},
	}
}

// A threadKit checks one ThreadHost.
type threadKit struct {
	host agent.ThreadHost
	in   session.Route
	run  string
}

// create has a thread created under a key.
func (k *threadKit) create(t testing.TB, key string) session.Route {
	t.Helper()
	made, err := k.host.CreateThread(t.Context(), k.asked(key))
	if err != nil {
		t.Fatalf("agenttest: creating a thread in %+v: %v", k.in, err)
	}
	return made.Clean()
}

// asked returns what a host is asked for under a key.
func (k *threadKit) asked(key string) agent.NewThread {
	return agent.NewThread{
		Key: "agenttest-" + k.run + "-" + key, In: k.in,
		Session: session.Must(session.MainKey(session.DefaultAgent)),
		Name:    "Offshoot test", Intro: "A test has created this thread.",
	}
}

func (k *threadKit) route(t testing.TB) {
	switch made := k.create(t, "route"); {
	case !made.Complete():
		t.Errorf("agenttest: the thread has no channel or no recipient: %+v", made)
	case made.Channel != k.in.Channel || made.Account != k.in.Account:
		t.Errorf("agenttest: the thread %+v is on another channel or account than %+v", made, k.in)
	case made == k.in:
		t.Errorf("agenttest: the thread is the conversation itself: %+v", made)
	}
}

func (k *threadKit) oneKey(t testing.TB) {
	const calls = 4
	made := make([]session.Route, calls)
	failed := make([]error, calls)
	var wg sync.WaitGroup
	for i := range made {
		wg.Go(func() { made[i], failed[i] = k.host.CreateThread(t.Context(), k.asked("one")) })
	}
	wg.Wait()
	for _, err := range failed {
		if err != nil {
			t.Fatalf("agenttest: creating a thread that is being created: %v", err)
		}
	}
	for _, other := range append(made[1:], k.create(t, "one")) {
		if other.Clean() != made[0].Clean() {
			t.Errorf("agenttest: one key gave two threads, %+v and %+v", made[0], other)
		}
	}
}

func (k *threadKit) twoKeys(t testing.TB) {
	if one, two := k.create(t, "first"), k.create(t, "second"); one == two {
		t.Errorf("agenttest: two keys gave one thread, %+v", one)
	}
}

func (k *threadKit) farewell(t testing.TB) {
	at := k.create(t, "farewell")
	for attempt := 1; attempt <= 2; attempt++ {
		err := k.host.Farewell(t.Context(), agent.Farewell{
			Key: "agenttest-" + k.run + "-farewell", Attempt: attempt, Route: at,
			Session: session.Must(session.MainKey(session.DefaultAgent)),
			Reason:  binding.ReasonManual, Text: "This test is over.",
		})
		if err != nil {
			t.Errorf("agenttest: attempt %d of a farewell: %v", attempt, err)
		}
	}
}

func (k *threadKit) open(t testing.TB) {
	state, err := k.host.ProbeThread(t.Context(), k.create(t, "open"))
	if err == nil && state != agent.ThreadOpen && state != agent.ThreadUncertain {
		t.Errorf("agenttest: a thread that was just created is %v", state)
	}
}

func (k *threadKit) unknown(t testing.TB) {
	at := k.create(t, "unknown")
	if at.Thread == "" { // the channel has threads that are conversations like any other
		at.To += "0"
	} else {
		at.Thread += "0"
	}
	if state, err := k.host.ProbeThread(t.Context(), at); err == nil && state == agent.ThreadOpen {
		t.Errorf("agenttest: the thread %+v, which was never created, is open", at)
	}
}

func (k *threadKit) ended(t testing.TB) {
	ctx, cancel := context.WithCancel(t.Context())
	at := k.create(t, "ended")
	cancel()
	for name, call := range map[string]func(){
		"CreateThread": func() {
			made, err := k.host.CreateThread(ctx, k.asked("never"))
			if err == nil && !made.Complete() {
				t.Errorf("agenttest: CreateThread returns neither a thread nor an error")
			}
		},
		"ProbeThread": func() { _, _ = k.host.ProbeThread(ctx, at) },
		"Farewell": func() {
			_ = k.host.Farewell(ctx, agent.Farewell{
				Key: "agenttest-" + k.run + "-ended", Attempt: 1, Route: at,
				Text: "This test is over.",
			})
		},
	} {
		returned := make(chan struct{})
		go func() {
			defer close(returned)
			call()
		}()
		late := time.NewTimer(threadReturns)
		select {
		case <-returned:
		case <-late.C:
			t.Errorf("agenttest: %s has not returned %v after the end of its context", name,
				threadReturns)
		}
		late.Stop()
	}
}

// threadReturns is how long a call may take to return when its context has ended.
const threadReturns = 10 * time.Second
