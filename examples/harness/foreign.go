package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
)

// What follows plays the other program: an agent in any language, with sessions of its own.

// A mind answers what it was told so far, oldest first.
type mind func(
	ctx context.Context, told []string, say func(string),
) (answer string, used agent.Usage, err error)

// think is the mind of the program in the terminal.
func think(ctx context.Context, told []string, say func(string)) (string, agent.Usage, error) {
	say("You told me: ")
	if told[len(told)-1] == "slow" {
		select {
		case <-time.After(3 * time.Second):
		case <-ctx.Done():
		}
	}
	say(strings.Join(told, ", ") + ".")
	return "", agent.Usage{Input: int64(len(told)), Output: 2}, nil
}

// A memory is what the program remembers of one session.
type memory struct {
	Seen []string `json:"seen"` // the ids of messages
	Told []string `json:"told"`
}

// serve answers one request. What it is told is on the disk before it is answered.
func serve(ctx context.Context, dir string, m mind, in io.Reader, out io.Writer) error {
	var ask request
	requests := json.NewDecoder(in)
	if err := requests.Decode(&ask); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	isNew := ask.Session == ""
	if isNew {
		ask.Session = rand.Text()
	}
	events := json.NewEncoder(out)
	if err := events.Encode(event{Session: ask.Session}); err != nil {
		return err
	}
	if isNew { // nothing is kept before the other side has the id
		if err := requests.Decode(&request{}); err != nil {
			return err
		}
	}
	told, err := remember(filepath.Join(dir, filepath.Base(ask.Session)+".json"), ask)
	if err != nil {
		return err
	}
	_, used, err := m(ctx, told, func(piece string) { _ = events.Encode(event{Delta: piece}) })
	end := event{Done: true, Usage: used}
	if err != nil {
		end.Error = err.Error()
	}
	return events.Encode(end)
}

// remember adds a message to what a session was told, unless it knows the message.
func remember(file string, ask request) ([]string, error) {
	var m memory
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, &m)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if slices.Contains(m.Seen, ask.ID) {
		return m.Told, nil
	}
	m.Seen, m.Told = append(m.Seen, ask.ID), append(m.Told, ask.Text)
	if data, err = json.Marshal(m); err != nil {
		return nil, err
	}
	if err = os.WriteFile(file+".new", data, 0o600); err != nil {
		return nil, err
	}
	return m.Told, os.Rename(file+".new", file)
}
