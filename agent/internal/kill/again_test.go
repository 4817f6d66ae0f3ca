package kill

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

// fanOut is the world of a program that has ten things done, and whose process ends in the middle.
const fanOut world = "fan-out"

const (
	fanOutTasks = 10
	// What becomes of them in the first life: the first ones end, the next wait for an answer of
	// their model, others have called a tool with an effect, and one finds no slot.
	lastEnded, lastAsking = 2, 5
	fanOutSlots           = 6
)

// fanOutLife is one life of the program. It is what docs/doing-again.md recommends.
func fanOutLife(dir, life string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	store, err := dirstore.Open(dir)
	if err != nil {
		return err
	}
	told := new(reporter)
	rt, err := agent.Open(ctx, fanOutConfig(store, life, told))
	if err != nil {
		return err
	}
	running := make(chan error, 1)
	go func() { running <- rt.Run(ctx) }()
	err = fanOutWork(ctx, rt, told)
	if ctx.Err() != nil {
		err = nil
	}
	stop()
	quit, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	return errors.Join(err, rt.Shutdown(quit), <-running, store.Close())
}

// fanOutWork has the ten things done, those again that were cut short.
func fanOutWork(ctx context.Context, rt *agent.Runtime, told *reporter) error {
	root := rt.Session(session.Must(session.MainKey("main")))
	children := make([]*agent.Child[string], fanOutTasks)
	for i := range children {
		task := fmt.Sprint("task ", i)
		c, err := root.Spawn(ctx, agent.Task{Text: task, Label: task, Key: task, Again: true})
		if err != nil {
			return err
		}
		told.report("run %d %s", i, c.ID())
		children[i] = c
	}
	told.report("alive")
	for i, c := range children {
		text, err := c.Wait(ctx)
		if err != nil {
			return err
		}
		told.report("result %d %s", i, text)
	}
	return nil
}

// fanOutConfig has a Loop whose model asks for a tool first, in all but the first tasks.
func fanOutConfig(store *session.Store, life string, told *reporter) agent.Config {
	forEver := func(ctx context.Context, doing string, task int) error {
		if life == lastLife {
			return nil
		}
		told.report("%s %d", doing, task)
		<-ctx.Done()
		return context.Cause(ctx)
	}
	model := agent.ModelFunc(func(
		ctx context.Context, req *agent.ModelRequest,
	) (*agent.ModelResponse, error) {
		_, number, _ := strings.Cut(req.Messages[0].Text, "task ")
		task, err := strconv.Atoi(number[:1])
		last := req.Messages[len(req.Messages)-1]
		switch {
		case err != nil:
			return nil, err
		case task > lastEnded && task <= lastAsking:
			if err := forEver(ctx, "asking", task); err != nil {
				return nil, err
			}
		case task > lastAsking && last.Role != session.MessageTool:
			args := json.RawMessage(fmt.Sprintf(`{"task":%d}`, task))
			return &agent.ModelResponse{
				ToolCalls: []agent.ToolCall{{ID: "1", Name: "act", Args: args}},
			}, nil
		}
		return &agent.ModelResponse{Text: fmt.Sprint("done in life ", life)}, nil
	})
	act := agent.NewTool("act", "acts", func(ctx context.Context, in struct {
		Task int `json:"task"`
	},
	) (string, error) {
		return "acted", forEver(ctx, "acting", in.Task)
	})
	act.Effect = agent.EffectEffectful
	return agent.Config{
		Runner: &agent.Loop{Model: model}, Tools: []agent.Tool{act}, Store: store,
		Deliver: func(context.Context, agent.Delivery) error { return nil },
		Grace:   time.Second,
		Rules: policy.Rules{Subagents: policy.Subagents{
			MaxChildren: fanOutTasks, MaxConcurrent: fanOutSlots,
		}},
	}
}

// fanOutSays starts a life of the program and returns what it says, by verb and task. It ends the
// process with end when everything stands as the constants say; nil: it ends by itself.
func fanOutSays(t *testing.T, dir, life string, end os.Signal) map[string]map[int]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), envDir+"="+dir, envLife+"="+life,
		envWorld+"="+string(fanOut), "GORACE=atexit_sleep_ms=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	defer time.AfterFunc(2*time.Minute, func() { _ = cmd.Process.Kill() }).Stop()
	says := map[string]map[int]string{"run": {}, "result": {}, "asking": {}, "acting": {}}
	ended := false
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		verb, rest, _ := strings.Cut(lines.Text(), " ")
		number, what, _ := strings.Cut(rest, " ")
		if says[verb] == nil {
			continue
		}
		task, err := strconv.Atoi(number)
		require.NoError(t, err, lines.Text())
		says[verb][task] = what
		busy := len(says["asking"]) + len(says["acting"])
		if end != nil && !ended && busy == fanOutSlots && len(says["result"]) == lastEnded+1 {
			ended = true
			require.NoError(t, cmd.Process.Signal(end))
		}
	}
	require.NoError(t, lines.Err())
	err = cmd.Wait()
	if end != os.Kill {
		require.NoError(t, err, "life %s: %s", life, stderr.String())
	}
	require.Equal(t, end != nil, ended)
	return says
}

// A3: Ctrl-C and kill -9 in the middle of a fan-out of ten. The next process has all ten results.
// What had ended is not run again. What waited for a slot, and after Ctrl-C also what waited for
// the first answer of its model, goes on under its own run. What had called a tool with an effect
// was interrupted, and is done again because the program says Again.
func TestFanOutThatIsCut(t *testing.T) {
	if testing.Short() || runtime.GOOS == "windows" {
		t.Skip("starts processes, and sends them signals")
	}
	for _, end := range []os.Signal{os.Interrupt, os.Kill} {
		t.Run(end.String(), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			first := fanOutSays(t, dir, "first", end)
			last := fanOutSays(t, dir, lastLife, nil)
			require.Len(t, last["result"], fanOutTasks)
			for task := range fanOutTasks {
				life := lastLife
				if task <= lastEnded {
					life = "first"
				}
				_, asking := first["asking"][task]
				_, acting := first["acting"][task]
				own := !acting && (!asking || end == os.Interrupt)
				require.Equal(t, "done in life "+life, last["result"][task], "task %d", task)
				require.Equal(t, own, first["run"][task] == last["run"][task], "task %d", task)
			}
		})
	}
}
