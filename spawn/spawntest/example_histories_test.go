package spawntest_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// A shop has a sub-agent work on each order and confirms it by mail. If one of the two fails it
// does both again, and has forgotten that this needs a key: there are two sub-agents when the mail
// fails. Histories find that, and how few steps it takes.
func ExampleHistories() {
	shop := session.Must(session.MainKey("main"))
	hs := spawntest.Histories{N: 1000, New: func(h *spawntest.History) spawntest.Program {
		var sup *spawn.Supervisor
		var orders atomic.Int64
		return spawntest.Program{
			Open: func(ctx context.Context, p *spawntest.Process) (_ spawntest.Server, err error) {
				cfg := spawn.Config{Store: p.Store, Runner: &spawntest.Runner{}}
				sup, err = spawn.Open(ctx, cfg)
				return sup, err
			},
			Commands: []spawntest.Command{{
				Name: "order", Do: func(ctx context.Context, p *spawntest.Process, _ int) {
					q := spawn.Request{Task: fmt.Sprint("order ", orders.Add(1))} // without a Key
					for range 3 {
						_, err := sup.Spawn(ctx, shop, shop, q)
						if err == nil && p.Call("mail", func() error { return nil }) == nil {
							return
						}
					}
				},
			}},
			Sites: []string{"mail"},
			Check: func() error {
				runs := map[string]int{}
				for f := range spawntest.Facts(h.Entries(shop)) {
					if f.Kind != "admitted" {
						continue
					}
					if runs[f.Task]++; runs[f.Task] > 1 {
						return errors.New("an order has two sub-agents")
					}
				}
				return nil
			},
		}
	}}
	inTest(func(t *testing.T) { // func TestShop(t *testing.T) { hs.Run(t) }
		found, _ := errors.AsType[*spawntest.HistoryError](hs.Find(t))
		fmt.Println(found.Errs)
		fmt.Println("in a few steps:", found.Steps <= 5)
	})
	// Output:
	// [at rest: an order has two sub-agents]
	// in a few steps: true
}

// inTest calls f as a test, which an example has not. Nothing of that is printed.
func inTest(f func(t *testing.T)) {
	defer func(v string) { _ = flag.Set("test.v", v) }(flag.Lookup("test.v").Value.String())
	_ = flag.Set("test.v", "false")
	all := func(string, string) (bool, error) { return true, nil }
	testing.RunTests(all, []testing.InternalTest{{Name: "Example", F: f}})
}
