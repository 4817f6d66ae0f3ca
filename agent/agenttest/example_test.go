package agenttest_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
)

// A bot that answers ten minutes later, tested in no time: also when its process is killed
// meanwhile.
func ExampleRun() {
	script := agenttest.Script{
		"main": {
			agenttest.Call("sessions_spawn", `{"task":"count the files","label":"count"}`),
			agenttest.Say("On it."),
			agenttest.Echo(), // says what the completion said
		},
		"count": {agenttest.Say("42").After(10 * time.Minute)},
	}
	var answer string
	test := func(t *testing.T) { // func TestBot(t *testing.T)
		agenttest.Run(t, agent.Config{}, script, func(h *agenttest.Harness) {
			h.Post("How many files?")
			time.Sleep(5 * time.Minute)
			h.Crash()
			h.Replied("On it.", "count: interrupted")

			h.Post("Count again, please.")
			answer = h.Replies()[2].Reply.Text
		})
	}
	all := func(string, string) (bool, error) { return true, nil }
	// go test does this
	ok := testing.RunTests(all, []testing.InternalTest{{Name: "TestBot", F: test}})
	fmt.Println(answer, ok)
	// Output:
	// Count again, please. true
}

// The calls of a model are recorded once, and answered from the file from then on. A test has a
// flag for it: go test -record.
func ExampleReplay() {
	dir, err := os.MkdirTemp("", "replay") // in a test of yours: testdata
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	play := func(name string, record agent.Model) bool {
		test := func(t *testing.T) { // func TestGreeting(t *testing.T)
			model := agenttest.Replay(t, filepath.Join(dir, "greeting.jsonl"),
				agenttest.ReplayOptions{Record: record})
			cfg := agent.Config{Runner: &agent.Loop{Model: model}}
			agenttest.Run(t, cfg, nil, func(h *agenttest.Harness) {
				h.Post("hello")
				h.Replied("Hello! What shall we do?")
			})
		}
		all := func(string, string) (bool, error) { return true, nil }
		return testing.RunTests(all, []testing.InternalTest{{Name: name, F: test}})
	}
	fmt.Println(play("recorded", greeter{}))
	fmt.Println(play("replayed", nil))
	// Output:
	// true
	// true
}

// A greeter is the real model.
type greeter struct{}

func (greeter) Generate(
	context.Context, *agent.ModelRequest,
) (*agent.ModelResponse, error) {
	return &agent.ModelResponse{Text: "Hello! What shall we do?"}, nil
}
