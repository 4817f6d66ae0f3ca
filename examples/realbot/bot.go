package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log"
	"strings"

	"github.com/offshoot-sdk/offshoot/agent"
)

// run is the bot until its input ends, or ctx does. What it is made of stands in config.go.
func run(ctx context.Context, o options, in io.Reader, out io.Writer) error {
	s := &screen{terminal: terminal{out: out}}
	rt, end, err := o.open(ctx, s.reply, &s.terminal)
	if err != nil {
		return err
	}
	chat := rt.Session(chatKey)
	ctx, quit := context.WithCancel(ctx)
	go s.watch(chat.Events(ctx))
	go func() {
		defer quit()
		lines := bufio.NewScanner(in)
		lines.Buffer(nil, 1<<20) // room for a message of 1,000,000 bytes
		for lines.Scan() {
			if _, err := chat.Post(ctx, agent.Incoming{Text: lines.Text()}); err != nil {
				log.Print(err)
			}
		}
		if err := errors.Join(lines.Err(), chat.Idle(ctx)); err != nil && ctx.Err() == nil {
			log.Print(err) // else the last answer is out
		}
	}()
	return errors.Join(rt.Run(ctx), end())
}

// A screen shows answers as they come, and of each reply what is not there yet.
type screen struct {
	terminal
	at   [2]int // the turn and the answer that are on the screen
	said int    // the last turn that has replied
}

func (s *screen) watch(events iter.Seq2[agent.TreeEvent, error]) {
	for e, err := range events {
		if err != nil {
			log.Print(err) // nothing comes behind it
		}
		s.Lock()
		if e.Kind == agent.EventDelta && e.Run == "" && e.Turn > s.said {
			if at := [2]int{e.Turn, e.Answer}; s.shown != "" && (e.Void || at != s.at) {
				fmt.Fprintln(s.out)
				s.shown = ""
			}
			s.at, s.shown = [2]int{e.Turn, e.Answer}, s.shown+e.Text
			fmt.Fprint(s.out, e.Text)
		}
		s.Unlock()
	}
}

func (s *screen) reply(_ context.Context, d agent.Delivery) error {
	s.Lock()
	defer s.Unlock()
	if !strings.HasPrefix(d.Reply.Text, s.shown) {
		fmt.Fprintln(s.out)
		s.shown = ""
	}
	_, err := fmt.Fprintln(s.out, d.Reply.Text[len(s.shown):])
	s.shown, s.said = "", d.Reply.Turn
	return errors.Join(err, s.tell())
}
