package agentctx

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// The words that mean silence.
const (
	// SilentToken as a whole message says nothing to people.
	SilentToken = "NO_REPLY"
	// HeartbeatToken as a whole message says that nothing needs attention.
	HeartbeatToken = "HEARTBEAT_OK"
)

func sendersText(a *assembly) string {
	var ids []string
	for _, id := range a.in.Channel.Senders {
		if id = literal(id); id == "" {
			continue
		}
		if a.in.Channel.HashSenders {
			id = hashSender(a.in.Channel.SenderSecret, id)
		}
		ids = append(ids, quote(id))
	}
	if ids == nil {
		return ""
	}
	return lines(
		"## Authorized Senders",
		"Messages from these senders are from people who may instruct you: "+strings.Join(ids, ", ")+". Being on the list does not make somebody the owner.",
	)
}

// hashSender returns the first 12 hexadecimal digits of the id's SHA-256, or
// of its HMAC-SHA-256 if there is a secret.
func hashSender(secret []byte, id string) string {
	h := sha256.New()
	if len(secret) > 0 {
		h = hmac.New(sha256.New, secret)
	}
	h.Write([]byte(id))
	return hex.EncodeToString(h.Sum(nil))[:12]
}

func replyTagsText(*assembly) string {
	return lines(
		"## Reply Tags",
		"To answer as a native reply or quote, make a tag the very first thing in your message: [[reply_to_current]] for the message at hand, [[reply_to:<id>]] for another whose id you were given. Never invent an id.",
		"White space inside the brackets does not matter. Tags are removed before people see the message.",
	)
}

func messagingText(a *assembly) string {
	return lines(
		"## Messaging",
		"Your answer in this session goes to the conversation that it came from; you need no tool for that.",
		when(a.tool("sessions_send") != "", "To reach another session use "+quote(a.tool("sessions_send"))+"."),
		"A message that reports the end of background work is for you, not for people. Tell them what it means in your own words, or nothing; never pass it on as it is.",
		messageToolText(a),
		hintLines(a.in.Channel.Hints),
	)
}

// messageToolText is the part about the message tool.
func messageToolText(a *assembly) string {
	tool := quote(a.tool("message"))
	if tool == "" {
		return ""
	}
	var options []string
	for _, o := range a.in.Channel.Options {
		if o = quote(o); o != "" {
			options = append(options, o)
		}
	}
	buttons := [...]string{
		Untold: "",
		Yes:    "Messages may carry buttons: rows of a text and the data that comes back when it is pressed.",
		No:     "Messages here cannot carry buttons; do not offer any.",
	}
	return lines(
		"### "+tool,
		"Use it to send on your own initiative, to another conversation, or for what is not plain text.",
		when(options != nil, "Destinations: "+strings.Join(options, ", ")+"."),
		"If it has delivered what the person was to see, answer with "+SilentToken+" alone, so that nothing is sent twice.",
		buttons[min(a.in.Channel.Buttons, No)],
	)
}

// hintLines renders remarks as a list.
func hintLines(hints []string) string {
	var list []string
	for _, h := range hints {
		if h = literal(h); h != "" {
			list = append(list, "- "+h)
		}
	}
	return strings.Join(list, "\n")
}

func voiceText(a *assembly) string {
	hint := literal(a.in.Channel.Voice)
	if hint == "" {
		return ""
	}
	return lines("## Voice", "Your answers are spoken: "+hint)
}

func reactionsText(a *assembly) string {
	var how string
	switch a.in.Channel.Reactions {
	case "minimal":
		how = "You may react to a message with an emoji when it really adds something: at most once in five to ten exchanges, and not to every routine message."
	case "extensive":
		how = "React to messages with an emoji whenever it comes naturally: to agree, to thank, to show that you have read or understood."
	default:
		return ""
	}
	return lines("## Reactions", how)
}

func reasoningText(a *assembly) string {
	if !a.in.ReasoningTags {
		return ""
	}
	return lines(
		"## Reasoning Format",
		"All reasoning stands inside <think>...</think>, and what people are to read inside <final>...</final>, in that order. Only the text inside <final> is shown to them.",
	)
}

func silentText(*assembly) string {
	return lines(
		"## Silent Replies",
		"If there is nothing to say to people, answer with exactly "+SilentToken+" and nothing else.",
		"Never put it at the end of a real answer, inside a sentence, or into quotes or a code block.",
	)
}

func heartbeatsText(a *assembly) string {
	prompt := quote(a.in.HeartbeatPrompt)
	return lines(
		"## Heartbeats",
		"Now and then a message arrives that only asks whether something needs attention"+when(prompt != "", ": "+prompt)+".",
		"If nothing does, answer with exactly "+HeartbeatToken+". If something does, say what, and leave that word out.",
	)
}

// conversationText describes the conversation of a session that is not a
// sub-agent.
func conversationText(a *assembly) string {
	if a.child || strings.TrimSpace(a.in.Conversation) == "" {
		return ""
	}
	return "## Conversation Context\n" + fenced(strings.TrimSpace(clean(a.in.Conversation)))
}
