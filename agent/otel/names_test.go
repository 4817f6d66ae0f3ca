package otel

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	semconv "go.opentelemetry.io/otel/semconv/v1.40.0"
	"go.opentelemetry.io/otel/semconv/v1.40.0/genaiconv"
)

// The names are those of the convention in the edition that the documentation tells of.
func TestNamesOfTheConvention(t *testing.T) {
	for ours, theirs := range map[attribute.Key]attribute.Key{
		keyOperation:  semconv.GenAIOperationNameKey,
		keyAgent:      semconv.GenAIAgentNameKey,
		keyChat:       semconv.GenAIConversationIDKey,
		keyModel:      semconv.GenAIRequestModelKey,
		keyRan:        semconv.GenAIResponseModelKey,
		keyProvider:   semconv.GenAIProviderNameKey,
		keyInput:      semconv.GenAIUsageInputTokensKey,
		keyOutput:     semconv.GenAIUsageOutputTokensKey,
		keyCacheRead:  semconv.GenAIUsageCacheReadInputTokensKey,
		keyCacheWrite: semconv.GenAIUsageCacheCreationInputTokensKey,
		keyTool:       semconv.GenAIToolNameKey,
		keyToolType:   semconv.GenAIToolTypeKey,
		keyCall:       semconv.GenAIToolCallIDKey,
		keyArguments:  semconv.GenAIToolCallArgumentsKey,
		keyResult:     semconv.GenAIToolCallResultKey,
		keyTokenType:  semconv.GenAITokenTypeKey,
		keyError:      semconv.ErrorTypeKey,
	} {
		require.Equal(t, theirs, ours)
	}
	require.Equal(t, opAgent, semconv.GenAIOperationNameInvokeAgent.Value.AsString())
	require.Equal(t, opTool, semconv.GenAIOperationNameExecuteTool.Value.AsString())
	require.Equal(t, opModel, semconv.GenAIOperationNameChat.Value.AsString())
	meter := metricnoop.Meter{}
	tokens, err := genaiconv.NewClientTokenUsage(meter)
	require.NoError(t, err)
	require.Equal(t, []string{tokens.Name(), tokens.Unit()}, []string{nameTokens, unitTokens})
	took, err := genaiconv.NewClientOperationDuration(meter)
	require.NoError(t, err)
	require.Equal(t, []string{took.Name(), took.Unit()}, []string{nameDuration, unitDuration})
}
