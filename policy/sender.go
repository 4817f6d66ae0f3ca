package policy

import (
	"cmp"
	"slices"
	"strings"

	"github.com/offshoot-sdk/offshoot/session"
)

// A Person is someone who may write to a session, as the channel tells people apart. A name is not
// enough: people choose theirs.
type Person struct {
	// Channel is one channel, as "telegram", in any case. Empty: every channel.
	Channel string
	// ID is what the channel calls the person, byte for byte: the ID of [session.Sender]. "*" is
	// every one, one that is not known too. There are no patterns.
	ID string
}

// SenderTools say which tools a turn may use that answers a person, and hand down to what it
// spawns. Of several in one list that name the person, the first with the very ID applies, else the
// first with a *.
type SenderTools struct {
	Person
	Tools ToolRules // without AlsoAllow, as there is no profile to add to
}

// A Sender is a person who has written to a session, as the journal keeps it: who it was, in which
// conversation, and whether the program took it for an owner then. The zero Sender is a person of
// whom nothing is known.
type Sender struct {
	// ID is that of [session.Sender]; empty: not known. "*" stands for people of whom there were
	// too many to keep: it is not an owner, and what Rules say of any person of its conversation
	// holds for it.
	ID string `json:"id,omitempty"`
	// Channel is that of the message.
	Channel string `json:"channel,omitempty"`
	// Peer is the conversation, as [session.Key.Peer] of the session that the channel posts to, or
	// if its key names none the To of the Route of the message. Empty: neither does.
	Peer string `json:"peer,omitempty"`
	// Owner says that the program has said so. What [Rules.Owners] say does not stand here, since
	// it may change.
	Owner bool `json:"owner,omitempty"`
}

// SenderOf returns the person who says a message to a session: from, in the conversation of the
// session's key, or of the route if the key names none. Bound says that a conversation is bound to
// the session, and the message comes from there. ok is false for what the program says itself: a
// message without an id to a cron session or a sub-agent. To any other session a message without an
// id is that of a person who is not known.
func SenderOf(
	to session.Key, from session.Sender, route session.Route, bound bool,
) (s Sender, ok bool) {
	kind := to.Kind()
	if from.ID == "" && !bound && (kind == session.KindSubagent || kind == session.KindCron) {
		return Sender{}, false
	}
	return Sender{
		ID: from.ID, Channel: cmp.Or(route.Channel, to.Channel()),
		Peer: cmp.Or(to.Peer(), strings.TrimSpace(route.To)),
	}, true
}

// everyone is the ID that stands for every person.
const everyone = "*"

// MaxSenders is how many people are kept at most of those for whom a turn or a run works.
const MaxSenders = 16

// MergeSenders returns the people of two lists, each once, for a turn that works for all of them. A
// person who is an owner in one of them alone is not. Of more than [MaxSenders] it keeps for each
// conversation one whose ID is *. It changes neither list, and may return one of them.
func MergeSenders(a, b []Sender) []Sender {
	if len(a) == 0 && len(b) <= MaxSenders {
		return b
	}
	merged := slices.Clip(a)
	for _, s := range b {
		same := func(other Sender) bool {
			return other.ID == s.ID && other.Channel == s.Channel && other.Peer == s.Peer
		}
		switch i := slices.IndexFunc(merged, same); {
		case i < 0:
			merged = append(merged, s)
		case merged[i].Owner && !s.Owner:
			merged = slices.Clone(merged)
			merged[i].Owner = false
		}
	}
	if len(merged) <= MaxSenders {
		return merged
	}
	var most []Sender
	for _, s := range merged {
		all := Sender{ID: everyone, Channel: s.Channel, Peer: s.Peer}
		if !slices.Contains(most, all) {
			most = append(most, all)
		}
	}
	if len(most) > MaxSenders { // of too many conversations, too: every rule holds
		most = []Sender{{ID: everyone, Channel: everyone, Peer: everyone}}
	}
	return most
}

// DefaultOwnerOnly returns what owners alone may use where [Rules.OwnerOnly] is nil: cron and
// gateway.
func DefaultOwnerOnly() []string { return slices.Clone(defaultOwnerOnly) }

var defaultOwnerOnly = []string{"cron", "gateway"}

// BindsSenders reports whether it matters to the rules who speaks, and where: whether they say who
// is an owner, or have tools by sender or by conversation.
func (r *Rules) BindsSenders() bool {
	return r.Owners != nil || len(r.Senders) > 0 ||
		slices.ContainsFunc(r.Chats, func(c Chat) bool {
			return len(c.Senders)+len(c.Tools.Allow)+len(c.Tools.Deny) > 0
		})
}

// IsOwner reports whether a person is an owner: the program has said so when the person wrote, or
// [Rules.Owners] say so now. Where those are nil, every person is.
func (r *Rules) IsOwner(s Sender) bool {
	if r.Owners == nil || s.Owner && s.ID != everyone {
		return true
	}
	return slices.ContainsFunc(r.Owners, func(p Person) bool {
		if s.ID == everyone || p.ID == everyone {
			return p.ID == everyone && (p.Channel == "" || p.isOf(&s) && s.Channel != everyone)
		}
		return p.names(&s)
	})
}

// isOf reports whether p may be a person of the channel of a sender.
func (p *Person) isOf(s *Sender) bool {
	return p.Channel == "" || s.Channel == everyone ||
		canonicalID(p.Channel) == canonicalID(s.Channel)
}

// names reports whether p is a sender by the ID.
func (p *Person) names(s *Sender) bool { return s.ID != "" && p.ID == s.ID && p.isOf(s) }

// ForSenders returns what is left of an authority in a turn that works for these people: what the
// least of them may use, and hand down. It is the authority of a session whose top-level session
// has the key root. Of a top-level session whose turn works for no person, as far as is known, the
// rules for * hold, and those for owners do not; of a sub-agent none does. What [Chat.Tools] say of
// the conversations that these people have written in holds, too, as in one session that serves
// several of them. What is removed stays removed in everything that the turn spawns, since that is
// given no more.
func (r *Rules) ForSenders(a Authority, root session.Key, senders []Sender) Authority {
	p := pipeline{rules: r, role: session.RoleMain, agentID: a.Agent}
	p.addSenders(Subject{Key: root, Role: a.Role, Senders: senders})
	if len(p.more) == 0 {
		return a
	}
	same := sameSlice(a.Tools, a.Delegable)
	a.Tools = p.filter(a.Tools)
	if same {
		a.Delegable = a.Tools
	} else {
		a.Delegable = p.filter(a.Delegable)
	}
	return a
}

// Withheld says why these people keep a session from a tool that it has otherwise: see
// [Rules.ForSenders]. ok is false if they do not.
func (r *Rules) Withheld(
	root session.Key, role session.Role, senders []Sender, tool string,
) (v ToolVerdict, ok bool) {
	p := pipeline{rules: r, role: session.RoleMain}
	p.addSenders(Subject{Key: root, Role: role, Senders: senders})
	if len(p.more) == 0 {
		return v, false
	}
	v = p.verdict(tool)
	return v, !v.Allowed
}

// addSenders appends the stages of the people for whom a session works: what owners alone may use,
// if one of them is not an owner, and for each of them what stands in the rules of every session
// and in those of the conversation.
func (p *pipeline) addSenders(s Subject) {
	r := p.rules
	senders := s.Senders
	if len(senders) == 0 {
		if s.Role != session.RoleMain {
			return
		}
		senders = []Sender{{Channel: s.Key.Channel(), Peer: s.Key.Peer(), Owner: true}}
	}
	for i := range senders {
		x := &senders[i]
		if !r.IsOwner(*x) && len(s.Senders) > 0 {
			p.addMore(stage{kind: stageOwner, deny: r.ownerOnly(), sender: x.ID})
		}
		p.addSender(stageSender, nil, r.Senders, x)
		if x.Peer == everyone { // of too many conversations
			for j := range r.Chats {
				p.addRoom(s.Key, &r.Chats[j], x)
			}
		} else if c := r.chatOf(canonicalID(x.Channel), x.Peer); c != nil {
			p.addRoom(s.Key, c, x)
		}
	}
}

// addRoom appends the stages of the conversation that a sender has written in: for the person, and
// for the conversation itself unless it is that of the session, whose own stage does that.
func (p *pipeline) addRoom(key session.Key, c *Chat, x *Sender) {
	if c != p.rules.chat(key) {
		p.addMore(stage{
			kind: stageRoom, chat: c, sender: x.ID,
			limited: len(c.Tools.Allow) > 0, allow: c.Tools.Allow, deny: c.Tools.Deny,
		})
	}
	p.addSender(stageChatSender, c, c.Senders, x)
}

// ownerOnly returns what owners alone may use.
func (r *Rules) ownerOnly() []string {
	if r.OwnerOnly == nil {
		return defaultOwnerOnly
	}
	return r.OwnerOnly
}

// addSender appends the stage of the entry of a list that applies to a sender, and of every entry
// that may apply if the sender stands for many.
func (p *pipeline) addSender(kind stageKind, of *Chat, list []SenderTools, x *Sender) {
	add := func(i int) {
		t := &list[i].Tools
		p.addMore(stage{
			kind: kind, chat: of, item: i, sender: x.ID,
			limited: len(t.Allow) > 0, allow: t.Allow, deny: t.Deny,
		})
	}
	if x.ID == everyone {
		for i := range list {
			if list[i].isOf(x) {
				add(i)
			}
		}
		return
	}
	i := slices.IndexFunc(list, func(e SenderTools) bool { return e.names(x) })
	if i < 0 {
		i = slices.IndexFunc(list, func(e SenderTools) bool {
			return e.ID == everyone && e.isOf(x)
		})
	}
	if i >= 0 {
		add(i)
	}
}

// addMore appends a stage of a sender, unless it would remove nothing or there is one like it.
func (p *pipeline) addMore(s stage) {
	like := func(t stage) bool { return t.kind == s.kind && t.chat == s.chat && t.item == s.item }
	if (s.limited || len(s.deny) > 0) && !slices.ContainsFunc(p.more, like) {
		p.more = append(p.more, s)
	}
}

// senders refuses entries of people that can name no one, and rules that cannot be.
func (v *validator) senders() {
	for i, p := range v.rules.Owners {
		v.person(ownersPlace.item(i), p)
	}
	v.entries(ownerOnlyPlace, v.rules.OwnerOnly)
	v.senderTools(sendersPlace, v.rules.Senders)
	for i := range v.rules.Chats {
		c := &v.rules.Chats[i]
		v.senderTools(v.rules.chatPlace(c).dot("Senders", "toolsBySender"), c.Senders)
	}
}

func (v *validator) senderTools(at place, list []SenderTools) {
	for i := range list {
		at := senderPlace(at, list, i)
		v.person(at, list[i].Person)
		at = place{at.field + ".Tools", at.path}
		v.toolRules(at, list[i].Tools)
		v.noAlsoAllow(at, list[i].Tools)
	}
}

// person refuses a person without an ID, and a channel that no session can have.
func (v *validator) person(at place, p Person) {
	if p.ID == "" {
		v.add(at.dot("ID", "id"), p.ID, "the id of a person as the channel has it, or * for every one")
	}
	if channel := canonicalID(p.Channel); p.Channel != "" {
		if why := notInKey(channel, "*"); channel == "" || why != "" {
			v.add(at.dot("Channel", "channel"), p.Channel,
				`one channel, as "telegram", or none for every one`)
		}
	}
}

// senderPlace returns the place of an entry of a list of tools by sender.
func senderPlace(at place, list []SenderTools, i int) place {
	key := list[i].ID
	switch {
	case list[i].Channel != "":
		key = "channel:" + canonicalID(list[i].Channel) + ":" + key
	case key != everyone:
		key = "id:" + key
	}
	return place{at.item(i).field, at.path + "[" + key + "]"}
}

// senderToolsPlace returns the place of the tools of such an entry.
func senderToolsPlace(at place, list []SenderTools, i int) place {
	at = senderPlace(at, list, i)
	return place{at.field + ".Tools", at.path}
}

// senders looks at the tools by sender.
func (d *doubter) senders() {
	for i := range d.rules.Senders {
		d.lists(senderToolsPlace(sendersPlace, d.rules.Senders, i), &d.rules.Senders[i].Tools)
	}
	d.twice(sendersPlace, d.rules.Senders)
	for i := range d.rules.Chats {
		c := &d.rules.Chats[i]
		at := d.rules.chatPlace(c).dot("Senders", "toolsBySender")
		for j := range c.Senders {
			d.lists(senderToolsPlace(at, c.Senders, j), &c.Senders[j].Tools)
		}
		d.twice(at, c.Senders)
	}
	if d.rules.OwnerOnly != nil && d.rules.Owners != nil {
		d.list(ownerOnlyPlace, d.rules.OwnerOnly)
	}
}

// twice looks for an entry that an earlier one of the same person keeps from applying.
func (d *doubter) twice(at place, list []SenderTools) {
	for i, e := range list {
		same := func(other SenderTools) bool {
			return other.ID == e.ID &&
				(other.Channel == "" || canonicalID(other.Channel) == canonicalID(e.Channel))
		}
		if first := slices.IndexFunc(list, same); first < i {
			d.add(senderPlace(at, list, i), "it is a person of %s, which applies in place of this one",
				at.item(first).field)
		}
	}
}
