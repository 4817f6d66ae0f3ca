package announcetest_test

import (
	"context"
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

// In a test the Recorder is Config.Deliver or Config.Reply.
func ExampleRecorder() {
	var got announcetest.Recorder
	reply := got.Deliver // Config.Reply
	ctx := context.Background()
	for _, text := range []string{"I am on it.", "There are 12."} {
		_ = reply(ctx, spawn.Delivery{Key: text, Reply: &spawn.Reply{Text: text}})
	}
	arrived, err := got.Wait(ctx, 2)
	for _, d := range arrived {
		fmt.Println(d.Reply.Text)
	}
	fmt.Println(got.Repeated(), err)
	// Output:
	// I am on it.
	// There are 12.
	// [] <nil>
}

// A transport that is busy, then loses an answer, and then says the same thing twice. The receiver
// behind it knows keys and acts once.
func ExampleFlakySink() {
	acted := 0
	var seen announce.Dedupe
	sink := announcetest.FlakySink{
		Next: seen.Once(func(context.Context, spawn.Delivery) error { acted++; return nil }),
		Script: []announcetest.Mishap{
			announcetest.MishapBusy, announcetest.MishapLose, announcetest.MishapRepeat,
		},
	}
	for attempt := 1; ; attempt++ {
		err := sink.Deliver(context.Background(), spawn.Delivery{Key: "a.1", Attempt: attempt})
		fmt.Println(sink.Log()[attempt-1].Mishap, err)
		if err == nil {
			break
		}
	}
	fmt.Println("acted:", acted)
	// Output:
	// busy spawn: the receiver is busy
	// lose announcetest: the sink has lost the answer as planned
	// repeat <nil>
	// acted: 1
}
