package policy_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

var (
	room = session.Must(session.GroupKey("main", "telegram", "-100"))
	ann  = policy.Sender{ID: "ann", Channel: "telegram", Peer: "-100"}
	bob  = policy.Sender{ID: "bob", Channel: "telegram", Peer: "-100"}
	anon = policy.Sender{Channel: "telegram", Peer: "-100"}
	many = policy.Sender{ID: "*", Channel: "telegram", Peer: "-100"}
)

// of returns an authority of a main session with these tools.
func allOf(tools ...string) policy.Authority {
	return policy.Authority{Agent: "main", Role: session.RoleMain, Tools: tools, Delegable: tools}
}

func TestForSenders(t *testing.T) {
	deny := func(who policy.Person, tools ...string) policy.SenderTools {
		return policy.SenderTools{Person: who, Tools: policy.ToolRules{Deny: tools}}
	}
	annIs := []policy.Person{{ID: "ann"}}
	chats := []policy.Chat{{
		Channel: "Telegram", Peer: "-100",
		Senders: []policy.SenderTools{
			{Person: policy.Person{ID: "ann"}}, deny(policy.Person{ID: "*"}, "exec"),
		},
	}}
	all := []string{"cron", "exec", "read"}
	owners := func(list ...policy.Person) policy.Rules {
		return policy.Rules{Owners: append([]policy.Person{}, list...)}
	}
	senders := func(list ...policy.SenderTools) policy.Rules { return policy.Rules{Senders: list} }
	one := func(s policy.Sender) []policy.Sender { return []policy.Sender{s} }
	for name, c := range map[string]struct {
		rules   policy.Rules
		senders []policy.Sender
		want    []string
	}{
		"nothing is known of owners": {policy.Rules{}, []policy.Sender{bob}, all},
		"an owner": {
			policy.Rules{Owners: annIs},
			[]policy.Sender{ann},
			all,
		},
		"a stranger": {
			policy.Rules{Owners: annIs},
			[]policy.Sender{bob},
			all[1:],
		},
		"the least of two": {
			policy.Rules{Owners: annIs},
			[]policy.Sender{ann, bob},
			all[1:],
		},
		"a person who is not known": {
			policy.Rules{Owners: annIs},
			[]policy.Sender{anon},
			all[1:],
		},
		"too many to keep": {
			policy.Rules{Owners: annIs},
			[]policy.Sender{many},
			all[1:],
		},
		"no one is an owner": {owners(), []policy.Sender{ann}, all[1:]},
		"the program has said so": {
			owners(),
			one(policy.Sender{ID: "x", Owner: true}),
			all,
		},
		"everyone is": {
			owners(policy.Person{ID: "*"}),
			[]policy.Sender{anon, many},
			all,
		},
		"of another channel": {
			owners(policy.Person{Channel: "irc", ID: "ann"}),
			[]policy.Sender{ann},
			all[1:],
		},
		"of this channel, in any case": {
			owners(policy.Person{Channel: "Telegram", ID: "ann"}),
			[]policy.Sender{ann},
			all,
		},
		"everyone of a channel": {
			owners(policy.Person{Channel: "telegram", ID: "*"}),
			[]policy.Sender{bob},
			all,
		},
		"no person": {policy.Rules{Owners: annIs}, nil, all},
		"nothing is for owners alone": {
			policy.Rules{Owners: annIs, OwnerOnly: []string{}},
			[]policy.Sender{bob},
			all,
		},
		"another list": {
			policy.Rules{Owners: annIs, OwnerOnly: []string{"e*"}},
			[]policy.Sender{bob},
			[]string{"cron", "read"},
		},

		"by sender": {
			policy.Rules{Chats: chats},
			[]policy.Sender{ann},
			all,
		},
		"by sender, any other": {
			policy.Rules{Chats: chats},
			[]policy.Sender{bob},
			[]string{"cron", "read"},
		},
		"by sender, no person": {
			policy.Rules{Chats: chats},
			nil,
			[]string{"cron", "read"},
		},
		"by sender, the least": {
			policy.Rules{Chats: chats},
			[]policy.Sender{ann, bob},
			[]string{"cron", "read"},
		},
		"by sender, too many": {
			policy.Rules{Chats: chats},
			[]policy.Sender{many},
			[]string{"cron", "read"},
		},
		"by sender, elsewhere": {
			policy.Rules{Chats: chats},
			one(policy.Sender{ID: "bob", Channel: "irc", Peer: "x"}),
			all,
		},
		"by sender, in every chat": {
			senders(deny(policy.Person{ID: "bob"}, "read")),
			[]policy.Sender{ann, bob},
			all[:2],
		},
		"by sender, of another channel": {
			senders(deny(policy.Person{Channel: "irc", ID: "bob"}, "read")),
			[]policy.Sender{bob},
			all,
		},
		"by sender, what is allowed": {policy.Rules{Senders: []policy.SenderTools{
			{Person: policy.Person{ID: "bob"}, Tools: policy.ToolRules{Allow: []string{"read"}}},
		}}, []policy.Sender{bob}, all[2:]},
		"everything applies to many": {policy.Rules{Senders: []policy.SenderTools{
			deny(policy.Person{ID: "eve"}, "read"), deny(policy.Person{Channel: "irc", ID: "x"}, "exec"),
		}}, []policy.Sender{many}, all[:2]},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, c.rules.Validate())
			got := c.rules.ForSenders(allOf(all...), room, c.senders)
			require.Equal(t, c.want, got.Tools)
			require.Equal(t, c.want, got.Delegable)
			for _, tool := range all {
				_, withheld := c.rules.Withheld(room, session.RoleMain, c.senders, tool)
				require.Equal(t, !slices.Contains(c.want, tool), withheld, tool)
			}
			s := policy.Subject{Key: room, Role: session.RoleMain, Senders: c.senders}
			require.Equal(t, c.want, c.rules.FilterTools(s, all), "FilterTools says the same")
		})
	}
}

// A sub-agent that works for no person, as far as is known, has what it was granted: so journals of
// earlier versions mean what they meant.
func TestForSendersOfASubagentWithoutAny(t *testing.T) {
	r := policy.Rules{
		Owners: []policy.Person{},
		Senders: []policy.SenderTools{{
			Person: policy.Person{ID: "*"}, Tools: policy.ToolRules{Deny: []string{"*"}},
		}},
	}
	a := policy.Authority{Agent: "main", Role: session.RoleLeaf, Depth: 1, Tools: []string{"cron"}}
	require.Equal(t, a, r.ForSenders(a, room, nil))
	require.Empty(t, r.ForSenders(a, room, []policy.Sender{ann}).Tools)
}

// The verdict names the rule and where it is set, and no person in its sentence.
func TestVerdictsOfSenders(t *testing.T) {
	r := policy.Rules{
		Owners: []policy.Person{{ID: "ann"}},
		Senders: []policy.SenderTools{
			{
				Person: policy.Person{Channel: "Telegram", ID: "bob"},
				Tools:  policy.ToolRules{Deny: []string{"web_*"}},
			},
		},
		Chats: []policy.Chat{{Channel: "telegram", Peer: "-100", Senders: []policy.SenderTools{
			{Person: policy.Person{ID: "*"}, Tools: policy.ToolRules{Allow: []string{"read", "cron"}}},
		}}},
	}
	for tool, want := range map[string]string{
		"cron":      `tool "cron" is for owners of the bot alone, and this turn works for a person who is not one, see Rules.OwnerOnly (tools.ownerOnly)`,
		"web_fetch": `tool "web_fetch" is removed for a person whom this turn works for by "web_*" at Rules.Senders[0].Tools.Deny (tools.toolsBySender[channel:telegram:bob].deny)`,
		"exec":      `tool "exec" is not named for a person whom this turn works for at Rules.Chats[0].Senders[0].Tools.Allow (channels.telegram.groups[-100].toolsBySender[*].allow)`,
	} {
		v, ok := r.Withheld(room, session.RoleMain, []policy.Sender{bob}, tool)
		require.True(t, ok)
		require.Equal(t, want, v.String())
		require.True(t, v.Sender)
	}
	v, _ := r.Withheld(room, session.RoleMain, []policy.Sender{bob}, "cron")
	require.Equal(t, policy.ToolOwner, v.Rule)
	require.Equal(t, "bob", v.SenderID)
	_, ok := r.Withheld(room, session.RoleMain, []policy.Sender{ann}, "cron")
	require.False(t, ok)

	// A spawn that asks for it is refused with the same sentence.
	_, err := r.Admit(policy.Caller{
		Key: room, Role: session.RoleMain, Known: []string{"cron", "read"},
		Delegable: []string{"read"}, Senders: []policy.Sender{bob},
	}, policy.Request{Tools: []string{"cron"}})
	require.ErrorIs(t, err, &policy.Refusal{Rule: policy.RuleTools})
	require.ErrorContains(t, err, "for owners of the bot alone")
}

func TestMergeSenders(t *testing.T) {
	owner := ann
	owner.Owner = true
	require.Equal(t, []policy.Sender{owner, bob},
		policy.MergeSenders([]policy.Sender{owner}, []policy.Sender{bob, owner}))
	before := []policy.Sender{owner}
	require.Equal(t, []policy.Sender{ann}, policy.MergeSenders(before, []policy.Sender{ann}), "the least")
	require.Equal(t, []policy.Sender{owner}, before, "it changes neither")
	require.Nil(t, policy.MergeSenders(nil, nil))

	var crowd []policy.Sender
	for i := range policy.MaxSenders + 1 {
		crowd = append(crowd, policy.Sender{
			ID: fmt.Sprint(i), Channel: "telegram", Peer: "-100", Owner: true,
		})
	}
	require.Equal(t, []policy.Sender{many}, policy.MergeSenders(nil, crowd))
	require.Equal(t, []policy.Sender{many}, policy.MergeSenders(crowd[:9], crowd[9:]))
	for i := range crowd {
		crowd[i].Peer = fmt.Sprint(i)
	}
	all := []policy.Sender{{ID: "*", Channel: "*", Peer: "*"}}
	require.Equal(t, all, policy.MergeSenders(nil, crowd))
	r := policy.Rules{Owners: []policy.Person{{Channel: "irc", ID: "*"}}, Chats: []policy.Chat{{
		Channel: "irc", Peer: "x",
		Senders: []policy.SenderTools{{
			Person: policy.Person{ID: "eve"}, Tools: policy.ToolRules{Deny: []string{"read"}},
		}},
	}}}
	require.Equal(t, []string{"exec"}, r.ForSenders(allOf("cron", "exec", "read"), room, all).Tools,
		"every rule holds")
}

// More people never have more: of random rules and lists the tools for a union are within those for
// each part, and in any order the same.
func TestForSendersIsLeast(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	tools := []string{"cron", "gateway", "exec", "read", "write"}
	pick := func(list []string) string { return list[rnd.IntN(len(list))] }
	people := []string{"ann", "bob", "eve", "*"}
	rules := func() (list []policy.SenderTools) {
		for range rnd.IntN(4) {
			e := policy.SenderTools{Person: policy.Person{ID: pick(people)}}
			if rnd.IntN(2) == 0 {
				e.Tools.Deny = []string{pick(tools)}
			} else {
				e.Tools.Allow = []string{pick(tools), pick(tools), pick(tools)}
			}
			list = append(list, e)
		}
		return list
	}
	for range 2000 {
		r := policy.Rules{Senders: rules(), Owners: []policy.Person{{ID: pick(people)}}}
		r.Chats = []policy.Chat{{Channel: "telegram", Peer: "-100", Senders: rules()}}
		require.NoError(t, r.Validate())
		var list []policy.Sender
		for range 1 + rnd.IntN(4) {
			list = append(list, policy.Sender{
				ID: pick([]string{"ann", "bob", "eve", "", "*"}), Channel: "telegram", Peer: "-100",
				Owner: rnd.IntN(4) == 0,
			})
		}
		all := r.ForSenders(allOf(tools...), room, list)
		for _, s := range list {
			one := r.ForSenders(allOf(tools...), room, []policy.Sender{s})
			for _, tool := range all.Tools {
				require.Contains(t, one.Tools, tool, "%+v %+v", r, list)
			}
		}
		slices.Reverse(list)
		require.Equal(t, all, r.ForSenders(allOf(tools...), room, list))
		require.Equal(t, all, r.ForSenders(all, room, list), "twice is once")
	}
}

func TestSendersThatCannotBe(t *testing.T) {
	r := policy.Rules{
		Owners:    []policy.Person{{}, {Channel: "a b", ID: "x"}},
		OwnerOnly: []string{"group:none"},
		Senders: []policy.SenderTools{{
			Person: policy.Person{ID: "x"}, Tools: policy.ToolRules{AlsoAllow: []string{"exec"}},
		}},
		Chats: []policy.Chat{{Channel: "irc", Peer: "#x", Senders: []policy.SenderTools{{}}}},
	}
	all, ok := errors.AsType[policy.FieldErrors](r.Validate())
	require.True(t, ok)
	var fields []string
	for _, e := range all {
		fields = append(fields, e.Field)
	}
	require.Equal(t, []string{
		"Rules.Owners[0].ID", "Rules.Owners[1].Channel", "Rules.OwnerOnly[0]",
		"Rules.Senders[0].Tools.AlsoAllow", "Rules.Chats[0].Senders[0].ID",
	}, fields)

	doubtful := policy.Rules{
		Owners: []policy.Person{}, OwnerOnly: []string{"crom"},
		Senders: []policy.SenderTools{
			{Person: policy.Person{ID: "x"}, Tools: policy.ToolRules{Deny: []string{"exce"}}},
			{Person: policy.Person{Channel: "irc", ID: "x"}},
		},
	}
	require.NoError(t, doubtful.Validate())
	var doubts []string
	for _, d := range doubtful.Doubts([]string{"exec"}) {
		doubts = append(doubts, d.String())
	}
	require.Equal(t, []string{
		`Rules.Senders[0].Tools.Deny[0] (tools.toolsBySender[id:x].deny[0]): there is no tool "exce"; the nearest is "exec"`,
		`Rules.Senders[1] (tools.toolsBySender[channel:irc:x]): it is a person of Rules.Senders[0], which applies in place of this one`,
		`Rules.OwnerOnly[0] (tools.ownerOnly[0]): there is no tool "crom"; the nearest is "cron"`,
	}, doubts)
}
