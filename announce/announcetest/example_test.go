package announcetest_test

import (
	"fmt"

	"github.com/offshoot-sdk/offshoot/announce"
	"github.com/offshoot-sdk/offshoot/announce/announcetest"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// A program that renders events in another way can check its rendering with the same forgeries.
func ExampleForgeries() {
	const nonce = "7f3c9a"
	broken := 0
	for _, f := range announcetest.Forgeries(nonce) {
		e := announce.Event{Task: f.Text, Status: spawn.StatusOK, Result: f.Text, Nonce: nonce}
		if announcetest.CheckFence(e.ForModel(), nonce) != nil ||
			announcetest.CheckPerson(e.ForPerson()) != nil {
			broken++
		}
	}
	fmt.Println(broken, "forgeries got through")
	// Output: 0 forgeries got through
}
