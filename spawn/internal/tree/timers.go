package tree

// A timer is a time at which a run or an entry of the outbox wants to be looked at. It may be out of date: whoever takes it
// asks the run or the entry.
type timer struct {
	at  int64
	run *Run
	ord uint32
}

// timers is a binary heap, earliest first.
type timers []timer

func (h *timers) push(x timer) {
	*h = append(*h, x)
	s := *h
	for i := len(s) - 1; i > 0; {
		up := (i - 1) / 2
		if s[up].at <= s[i].at {
			break
		}
		s[up], s[i] = s[i], s[up]
		i = up
	}
}

func (h *timers) pop() timer {
	s := *h
	top, last := s[0], len(s)-1
	s[0] = s[last]
	s[last] = timer{}
	s = s[:last]
	*h = s
	for i := 0; ; {
		least := i
		for _, down := range [2]int{2*i + 1, 2*i + 2} {
			if down < last && s[down].at < s[least].at {
				least = down
			}
		}
		if least == i {
			return top
		}
		s[i], s[least] = s[least], s[i]
		i = least
	}
}
