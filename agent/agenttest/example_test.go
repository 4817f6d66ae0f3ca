package agenttest_test

import (
	"fmt"
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
