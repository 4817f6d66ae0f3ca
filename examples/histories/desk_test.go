package histories

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// world is what outlives the processes of a Desk: which orders were placed and acknowledged.
type world struct {
	mu            sync.Mutex
	placed, acked map[string]int
}

func (w *world) count(m map[string]int, order string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m[order]++
}

// check returns what customers would complain about.
func (w *world) check(h *spawntest.History) error {
	runs := map[string]int{}
	for f, err := range spawntest.Facts(h.Entries(top)) {
		if err != nil {
			return err
		}
		if f.Kind == "admitted" {
			runs[f.Task]++
		}
	}
	for order, n := range w.placed {
		switch {
		case w.acked[order] > 0 && runs[order] == 0:
			return fmt.Errorf("%s was acknowledged, and is not on record", order)
		case runs[order] > n:
			return fmt.Errorf("%s was placed %d times, and has %d runs", order, n, runs[order])
		}
	}
	return nil
}

// histories are those of a version of the Desk.
func histories(v Version) spawntest.Histories {
	return spawntest.Histories{N: 200, New: func(h *spawntest.History) spawntest.Program {
		w := &world{placed: map[string]int{}, acked: map[string]int{}}
		var desk *Desk
		return spawntest.Program{
			Open: func(ctx context.Context, p *spawntest.Process) (spawntest.Server, error) {
				cfg := spawn.Config{Store: p.Store, Runner: &spawntest.Runner{}}
				sup, err := spawn.Open(ctx, cfg)
				if err != nil {
					return nil, err
				}
				desk = &Desk{Version: v, Spawn: sup.Spawn, Ack: func(order string) error {
					return p.Call("ack", func() error { w.count(w.acked, order); return nil })
				}}
				return sup, nil
			},
			Commands: []spawntest.Command{{
				Name: "order", Do: func(ctx context.Context, p *spawntest.Process, n int) {
					order := fmt.Sprintf("order %d of life %d", n, p.Life)
					w.count(w.placed, order)
					h.Logf("%s: %v", order, desk.Order(ctx, order))
				},
			}},
			Sites: []string{"ack"},
			Check: func() error { return w.check(h) },
		}
	}}
}

func TestMendedDesk(t *testing.T) { histories(Mended).Run(t) }

// The histories find what is wrong, and leave few steps of it, which fail again.
func TestBrokenDesks(t *testing.T) {
	for v, want := range map[Version]string{
		Keyless: "was placed", Hasty: "acknowledged, and is not on record",
	} {
		broken := histories(v)
		broken.N = 10_000 // it ends with the first that fails
		err := broken.Find(t)
		found, ok := errors.AsType[*spawntest.HistoryError](err)
		if !ok || !strings.Contains(found.Error(), want) {
			t.Fatalf("version %d: found %v, not that an order %s", v, err, want)
		}
		if t.Logf("%d steps of %d:\n%s", found.Steps, found.Of, found.History); found.Steps > 8 {
			t.Errorf("version %d: %d steps are left", v, found.Steps)
		}
		again := histories(v)
		again.Replay = found.History
		failed := false
		for range 20 { // the pauses of a store that fails are random
			failed = failed || again.Find(t) != nil
		}
		if !failed {
			t.Errorf("version %d: the history passes when it is played again", v)
		}
	}
}
