package tree

// Watch folds a fact for somebody who looks on and will not open the tree. What an owner notes beside the facts when it takes the
// tree over, that what was in the outbox then may have arrived, is noted here too.
func (t *Tree) Watch(f *Fact) error {
	if err := t.Replay(f); err != nil {
		return err
	}
	if f.Kind == Opened {
		for _, e := range t.outbox.entries {
			e.maybe = true
		}
	}
	return nil
}
