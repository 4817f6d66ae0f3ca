package kill

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/internal/disk"
	"github.com/offshoot-sdk/offshoot/internal/disk/disktest"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

// How often the power is lost, 8 times unless set and 2 under the race detector, and the seed of
// when and how, which a failure names.
const (
	envLosses = "OFFSHOOT_LOSSES"
	envSeed   = "OFFSHOOT_SEED"
)

// The load that is killed elsewhere, on a disk that loses its power between any two operations:
// what was not synced is then there or not, sector by sector and name by name, as it comes. What
// was acknowledged is there each time, and in the end everything has ended and the requester was
// told of it, once.
func TestPowerLoss(t *testing.T) {
	unset := 8
	if underRace {
		unset = 2
	}
	losses := setting(t, envLosses, unset)
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv(envSeed); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		require.NoError(t, err, envSeed)
		seed = n
	}
	t.Logf("%s=%d", envSeed, seed)
	for _, w := range []world{callerRun, managed} {
		t.Run(string(w), func(t *testing.T) {
			p := &powered{witness: newWitness(t, w), rng: rand.New(rand.NewPCG(seed, 0))}
			p.begin(t)
			for n := range losses {
				m := p.moment()
				p.life(t, strconv.Itoa(n), &m)
				if len(p.last) > 0 { // else there may be no state yet
					p.checkDisk(t, fmt.Sprintf("after loss %d", n))
					p.checkGiven(t, fmt.Sprintf("after loss %d", n))
				}
				if n%killsPerState == killsPerState-1 {
					p.end(t)
					p.begin(t)
				}
			}
			p.end(t)
			p.unmount()
			t.Logf("%d losses, %d of them in a compaction: %+v", losses, p.compacting, p.sum)
		})
	}
}

// A powered is a bot on a disk that loses its power, and what the world has heard of it.
type powered struct {
	*witness
	rng        *rand.Rand
	disk       *disktest.Disk
	unmount    func()
	compacting int // losses in the middle of a compaction
	heard      arrivalLog
}

// begin begins a new state.
func (p *powered) begin(t *testing.T) {
	p.witness.beginState(t)
	p.dir = "/state"
	clear(p.heard.keys)
	p.put(disktest.New())
	require.NoError(t, p.disk.Mkdir(p.dir))
	require.NoError(t, p.disk.SyncDir("/"))
}

// put puts a disk in the place of the one before.
func (p *powered) put(d *disktest.Disk) {
	if p.disk != nil {
		p.unmount()
	}
	p.disk = d
	p.unmount = disk.Mount(p.dir, d)
}

// A moment is when the power is lost: after so many operations, or so many of them on what a
// compaction makes, whichever comes first.
type moment struct{ ops, compacting int }

// moment draws one, often while the directory is being opened and often in the middle of a
// compaction.
func (p *powered) moment() moment {
	switch p.rng.IntN(3) {
	case 0:
		return moment{ops: 1 + p.rng.IntN(100)}
	case 1:
		return moment{ops: 20_000, compacting: 1 + p.rng.IntN(30)}
	}
	return moment{ops: 1 + p.rng.IntN(6000)}
}

func (m *moment) come(op disktest.Op) (now, compacting bool) {
	m.ops--
	compacting = strings.HasSuffix(op.Name, ".wal.tmp")
	if compacting {
		m.compacting--
	}
	return m.ops == 0 || compacting && m.compacting == 0, compacting
}

// life is one life of the bot, until the power is lost; the last one goes on until it ends.
func (p *powered) life(t *testing.T, name string, m *moment) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	off := make(chan *disktest.Disk, 1)
	if m != nil {
		p.disk.Hook(p.loseAt(m, func(d *disktest.Disk) {
			off <- d
			cancel()
		}))
	}
	err := p.live(ctx, name)
	if m == nil {
		require.NoError(t, err, "life %s", name)
		return
	}
	select {
	case d := <-off:
		p.put(d)
	default:
		require.NoError(t, err, "life %s", name)
		t.Fatalf("life %s ended by itself", name)
	}
}

// loseAt returns a hook that loses the power.
func (p *powered) loseAt(m *moment, lost func(*disktest.Disk)) func(disktest.Op) error {
	var mu sync.Mutex
	likely := [...]float64{0, 1, p.rng.Float64()}[p.rng.IntN(3)]
	return func(op disktest.Op) error {
		mu.Lock()
		defer mu.Unlock()
		now, compacting := m.come(op)
		if !now || m.ops < 0 {
			return nil
		}
		m.ops = 0
		if compacting {
			p.compacting++
		}
		lost(p.disk.PowerOff(func(int) bool { return p.rng.Float64() < likely }))
		return disktest.ErrOff
	}
}

// live is what a process does.
func (p *powered) live(ctx context.Context, name string) error {
	store, err := dirstore.Open(p.dir)
	if err != nil {
		return err
	}
	l := &workload{
		world: p.world, life: name, arrive: p.heard.arrive,
		tell: func(format string, args ...any) {
			_ = p.readLine(fmt.Sprintf(format, args...)) // what the load tells can be read
		},
	}
	rt, err := agent.Open(ctx, l.config(store))
	if err != nil {
		return err
	}
	running := make(chan error, 1)
	go func() { running <- rt.Run(context.WithoutCancel(ctx)) }()
	if name == lastLife {
		err = l.waitIdle(ctx, rt)
	} else {
		l.work(ctx, rt)
	}
	// A process that has lost its power ends like one that is told to; only what it does to the
	// disk is lost.
	hurry, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Millisecond)
	defer stop()
	if name == lastLife {
		hurry = context.WithoutCancel(ctx)
	}
	if e := rt.Shutdown(hurry); err == nil {
		err = e
	}
	if e := <-running; err == nil {
		err = e
	}
	if e := store.Close(); err == nil {
		err = e
	}
	return err
}

// end lets the bot come to an end, and looks at what has become of everything.
func (p *powered) end(t *testing.T) {
	t.Helper()
	p.life(t, lastLife, nil)
	p.checkEnd(t, p.heard.keys)
}
