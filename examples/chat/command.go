package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
)

// obey does what a line says: a command, or a message for the agent. It waits for the answers of
// the lines before, so that a command has its effect between them.
func obey(ctx context.Context, chat *agent.Session, screen *terminal, line string) error {
	command, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	switch {
	case command == "":
		return nil
	case !strings.HasPrefix(command, "/"):
		_, err := chat.Post(ctx, agent.Incoming{Text: line})
		return err
	case command == "/image":
		return showImage(ctx, chat, strings.TrimSpace(rest))
	case command == "/help":
		screen.note("%s", usage)
		return nil
	}
	if err := chat.Idle(ctx); err != nil {
		return err
	}
	switch command {
	case "/compact":
		switch err := chat.Compact(ctx); {
		case errors.Is(err, agent.ErrNothing):
			screen.note("the conversation is short enough as it is")
		case err != nil:
			return err
		default:
			screen.note("the conversation so far is summed up")
		}
	case "/reset":
		if err := chat.Reset(ctx); err != nil {
			return err
		}
		screen.note("a new conversation begins")
	default:
		return fmt.Errorf("there is no command %s; /help shows those that there are", command)
	}
	return nil
}

// showImage posts a file. What it is its bytes say, so it need not be told.
func showImage(ctx context.Context, chat *agent.Session, path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	_, err = chat.Post(ctx, agent.Incoming{Parts: []agent.Part{{
		Kind: session.PartImage, Name: filepath.Base(path), Data: data,
	}}})
	return err
}
