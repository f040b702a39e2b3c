package runtime

// KeepElsewhere counts a value that the task keeps where other processes need no copies of
// it, as Keep does: the process may have been ordered to die there.
func (m *Member) KeepElsewhere(name string) error {
	p := m.p
	p.lock()
	defer p.unlock()
	if err := m.usable(name); err != nil {
		return err
	}
	if p.count(m.task, name, nil); p.dead {
		return ErrKilled
	}
	return nil
}
