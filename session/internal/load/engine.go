package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// The limit of a lane that [Engine.Lane] measures, and the turn of its sub-agents.
const (
	Slots = 8
	Turn  = 100 * time.Millisecond
)

// An Engine is one whose cost is measured.
type Engine struct {
	// Fresh returns the Target of a Load in which there is nothing.
	Fresh func() string
	// Start returns a process of a load that is to be started, see [Run].
	Start func(ctx context.Context, l Load) *exec.Cmd
	// Commits returns how many writes of 1,000 bytes a second the engine brings to its disk, by so
	// many writers of which each waits for its own.
	Commits func(writers int, d time.Duration) (float64, error)
	// Requests returns how many requests the engine has had so far.
	Requests func() (int64, error)
	// Dir is an empty directory.
	Dir string
	// Out gets the tables.
	Out io.Writer
}

// A Part is one of the measurements.
type Part struct {
	Name string
	Run  func(ctx context.Context) error
}

// Parts returns the measurements of e whose rows take as long as a text says, such as 10s. Without
// one that is the lane alone, as short as will do to see that its limit holds.
func (e Engine) Parts(text string) ([]Part, error) {
	if text == "" {
		lane := func(ctx context.Context) error { return e.Lane(ctx, time.Second) }
		return []Part{{"lane", lane}}, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return nil, fmt.Errorf("load: how long a row takes: %w", err)
	}
	return []Part{
		{"one", func(ctx context.Context) error { return e.Spawns(ctx, d, 1) }},
		{"many", func(ctx context.Context) error { return e.Spawns(ctx, d, 64) }},
		{"lane", func(ctx context.Context) error { return e.Lane(ctx, 2*d) }},
	}, nil
}

// head says on which machine a table was measured, and what its disk does.
func (e Engine) head(d time.Duration) error {
	e.say("%s, %s/%s, %d processors, load average %s", time.Now().UTC().Format("2006-01-02 15:04"),
		runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), average())
	for _, writers := range []int{1, 16} {
		n, err := e.Commits(writers, d/4)
		if err != nil {
			return err
		}
		e.say("raw commits by %d writers: %.0f a second", writers, n)
	}
	return nil
}

func (e Engine) say(format string, args ...any) { _, _ = fmt.Fprintf(e.Out, format+"\n", args...) }

// average returns the load average of the machine, where it is known.
func average() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(text))[:3], " ")
}

// Spawns prints how many sub-agents whose turns take no time end in a second, and how long each
// takes, for these numbers of requesters on one, two and three processes. d is how long each row
// takes.
func (e Engine) Spawns(ctx context.Context, d time.Duration, requesters ...int) error {
	if err := e.head(d); err != nil {
		return err
	}
	e.say("\n| processes | requesters | spawns/s | spawn to delivery: median | 99 %% | " +
		"requests a spawn | fewest and most of a requester | load average |\n" +
		"|---|---|---|---|---|---|---|---|")
	for _, n := range requesters {
		for processes := 1; processes <= 3; processes++ {
			before, err := e.Requests()
			if err != nil {
				return err
			}
			r, err := Run(ctx, processes, n, Load{Target: e.Fresh(), AtOnce: 1, For: d}, e.Start)
			if err != nil {
				return err
			}
			after, err := e.Requests()
			if err != nil {
				return err
			}
			fewest, most := r.Fairness()
			e.say("| %d | %d | %.1f | %.1f ms | %.1f ms | %.1f | %d, %d | %s |", processes, n,
				float64(len(r.Took))/d.Seconds(), ms(r.Part(2)), ms(r.Part(100)),
				float64(after-before)/float64(len(r.Took)), fewest, most, average())
		}
	}
	return nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// Lane prints how well three processes with 48 sub-agents of 24 requesters use a lane of [Slots],
// whose turns take [Turn]. The error is [ErrLimit] if more than that were under way at a time.
func (e Engine) Lane(ctx context.Context, d time.Duration) error {
	if err := e.head(d); err != nil {
		return err
	}
	l := Load{
		Target: e.Fresh(), AtOnce: 2, Turn: Turn, For: d, Events: filepath.Join(e.Dir, "events"),
	}
	before, err := e.Requests()
	if err != nil {
		return err
	}
	r, err := Run(ctx, 3, 24, l, e.Start)
	if err != nil {
		return err
	}
	after, err := e.Requests()
	if err != nil {
		return err
	}
	events, err := os.Open(l.Events)
	if err != nil {
		return err
	}
	defer func() { _ = events.Close() }()
	u, err := ReadUse(events)
	if err != nil {
		return err
	}
	fewest, most := r.Fairness()
	e.say("\nA lane of %d slots, three processes, turns of %v: at most %d at once, %.1f a second, "+
		"%.0f %% of the ideal.\n%d runs, each requester had %d to %d; %.1f requests a run; load "+
		"average %s.\nOf each turn: %v turn, %v until the slot is given back, %v until it is "+
		"granted (slowest tenth from %v), %v until the next turn begins.",
		Slots, Turn, u.Most, u.Rate, 100*u.Rate*Turn.Seconds()/Slots, len(r.Took), fewest, most,
		float64(after-before)/float64(len(r.Took)), average(),
		round(u.Turn), round(u.End), round(u.Grant), round(u.Beyond), round(u.Begin))
	if u.Most > Slots {
		return fmt.Errorf("%w: %d turns at once", ErrLimit, u.Most)
	}
	return nil
}

func round(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }

// ErrLimit says that more turns were under way at a time than the lane has slots.
var ErrLimit = errors.New("load: the limit of the lane was exceeded")
