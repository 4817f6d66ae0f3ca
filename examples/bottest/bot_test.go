package bottest

import (
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
)

var script = agenttest.Script{
	"main": {
		agenttest.Call("sessions_spawn", `{"task": "count the files", "label": "count"}`),
		agenttest.Say("On it."),
		agenttest.Echo(), // repeats the result of the completion
	},
	"count": {agenttest.Say("42").After(10 * time.Minute)},
}

func TestAnswerComesTenMinutesLater(t *testing.T) {
	agenttest.Run(t, agent.Config{}, script, func(h *agenttest.Harness) {
		h.Post("How many files?")
		time.Sleep(9 * time.Minute) // virtual: returns at once
		h.Replied("On it.")
		time.Sleep(2 * time.Minute)
		h.Replied("On it.", "42")
	})
}

func TestCrashWhileTheChildRuns(t *testing.T) {
	agenttest.Run(t, agent.Config{}, script, func(h *agenttest.Harness) {
		h.Post("How many files?")
		time.Sleep(5 * time.Minute)
		h.Crash() // kill -9, then the same store again
		time.Sleep(time.Minute)
		if got := h.Child("count").Status; got != agent.StatusInterrupted {
			t.Errorf("status = %v, want %v", got, agent.StatusInterrupted)
		}
	})
}

// EveryCrash kills the process at each write to the store. In every case, nothing is lost and
// nothing comes twice.
func TestAnyCrash(t *testing.T) {
	agenttest.EveryCrash(t, agent.Config{}, script, func(h *agenttest.Harness) {
		h.Post("How many files?")
		time.Sleep(time.Hour)
	})
}
