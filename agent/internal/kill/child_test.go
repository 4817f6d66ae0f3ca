package kill

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

// The child is this very test binary, told by its environment to be a bot that the parent will
// kill.
const (
	envDir   = "OFFSHOOT_KILL_DIR"   // where its state is
	envLife  = "OFFSHOOT_KILL_LIFE"  // which of its lives this is, or lastLife to come to an end
	envWorld = "OFFSHOOT_KILL_WORLD" // which world it lives in
)

const (
	lastLife     = "last"
	arrivalsFile = "arrivals" // what left the child, a file beside the state
)

func TestMain(m *testing.M) {
	dir := os.Getenv(envDir)
	if dir == "" {
		m.Run()
		return
	}
	life, w := os.Getenv(envLife), world(os.Getenv(envWorld))
	run := func() error { return runChild(dir, life, w) }
	if w == fanOut {
		run = func() error { return fanOutLife(dir, life) }
	}
	if err := run(); err != nil {
		panic(err) // the parent sees the exit code, and shows this
	}
}

// A reporter tells the parent, on standard output, what was acknowledged. A process that is killed
// cannot take that back.
type reporter struct{ mu sync.Mutex }

func (t *reporter) report(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(os.Stdout, format+"\n", args...)
}

// runChild is one life of the child.
func runChild(dir, life string, w world) error {
	ctx := context.Background()
	store, err := dirstore.Open(dir)
	if err != nil {
		return err
	}
	out, err := os.OpenFile(filepath.Join(filepath.Dir(dir), arrivalsFile),
		os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	work := filepath.Join(filepath.Dir(dir), workDir)
	if err := os.MkdirAll(work, 0o700); err != nil {
		return err
	}
	told := new(reporter)
	l := &workload{
		world: w, life: life, tell: told.report, dir: work,
		arrive: func(key string, things ...string) error {
			_, err := fmt.Fprintf(out, "%s\t%s\n", key, strings.Join(things, " "))
			return err
		},
	}
	// a short run need not wait for many compactions, but for what is read after each kill
	if os.Getenv(envKills) == "" {
		l.text = longText / 3
	}
	rt, err := agent.Open(ctx, l.config(store))
	if err != nil {
		return err
	}
	running := make(chan error, 1)
	go func() { running <- rt.Run(ctx) }()
	told.report("alive")
	if life == lastLife {
		return errors.Join(l.waitIdle(ctx, rt), waitTidy(work), waitDropped(ctx, store),
			rt.Shutdown(ctx), <-running, store.Close())
	}
	l.work(ctx, rt)
	return <-running
}
