package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"
)

// workerName is the tool by which the parent of an einoJob has children run.
const workerName = "worker"

// einoJob is a parent whose model calls an agent as a tool, so many times in one message. The
// children run in parallel, and the parent waits for all of them.
type einoJob struct{}

func openEino(context.Context, string, int) (job, error) { return einoJob{}, nil }

func (einoJob) close(context.Context) error { return nil }

func (einoJob) run(ctx context.Context, children, atATime int) error {
	child, err := adk.NewChatModelAgent(ctx, &adk.ChatModelAgentConfig{
		Name: workerName, Description: "counts files", Model: &einoModel{},
	})
	if err != nil {
		return err
	}
	fanOut := &einoModel{calls: make(chan int, 1)}
	parent, err := adk.NewChatModelAgent(ctx, &adk.ChatModelAgentConfig{
		Name: "parent", Description: "has files counted", Model: fanOut,
		ToolsConfig: adk.ToolsConfig{ToolsNodeConfig: compose.ToolsNodeConfig{
			Tools: []tool.BaseTool{adk.NewAgentTool(ctx, child)},
		}},
	})
	if err != nil {
		return err
	}
	runner := adk.NewRunner(ctx, adk.RunnerConfig{Agent: parent})
	for n := 0; n < children; n += atATime {
		want := min(atATime, children-n)
		fanOut.calls <- want
		told, err := results(runner.Query(ctx, task))
		if err == nil && told != want {
			err = fmt.Errorf("eino told of %d children of %d", told, want)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// results returns how many results of children the events of a turn have.
func results(events *adk.AsyncIterator[*adk.AgentEvent]) (n int, err error) {
	for {
		event, ok := events.Next()
		if !ok {
			return n, err
		}
		err = errors.Join(err, event.Err)
		if event.Output == nil || event.Output.MessageOutput == nil {
			continue
		}
		out := event.Output.MessageOutput
		if out.Role == schema.Tool && out.Message.Content == answer {
			n++
		}
	}
}

// einoModel answers at once. With calls, it calls the worker so many times first.
type einoModel struct{ calls chan int }

func (m *einoModel) Generate(
	context.Context, []*schema.Message, ...model.Option,
) (*schema.Message, error) {
	select {
	case n := <-m.calls:
		list := make([]schema.ToolCall, n)
		for i := range list {
			list[i] = schema.ToolCall{
				ID: fmt.Sprint("call-", i), Type: "function",
				Function: schema.FunctionCall{
					Name: workerName, Arguments: `{"request":"` + task + `"}`,
				},
			}
		}
		return schema.AssistantMessage("", list), nil
	default:
		return schema.AssistantMessage(answer, nil), nil
	}
}

func (m *einoModel) Stream(
	ctx context.Context, in []*schema.Message, opts ...model.Option,
) (*schema.StreamReader[*schema.Message], error) {
	said, err := m.Generate(ctx, in, opts...)
	if err != nil {
		return nil, err
	}
	return schema.StreamReaderFromArray([]*schema.Message{said}), nil
}

func (m *einoModel) WithTools([]*schema.ToolInfo) (model.ToolCallingChatModel, error) {
	return m, nil
}
