package node

// Ask has the function of a Once called. Who runs the task again does not call it, and would
// miss what the task called there: operations of the task fail until it has returned.
func (m *Member) Ask(f func()) {
	m.ask(true)
	defer m.ask(false)
	f()
}

func (m *Member) ask(on bool) {
	m.p.engine.Lock()
	defer m.p.engine.Unlock()
	m.asking = on
}

// KeepElsewhere counts a value that the task keeps where other processes need no copies of
// it, as Keep does: the process may have been ordered to die there.
func (m *Member) KeepElsewhere(name string) error {
	p := m.p
	p.engine.Lock()
	defer p.engine.Unlock()
	if err := m.usable(name); err != nil {
		return err
	}
	if p.count(m.task, name, nil); p.dead {
		return ErrKilled
	}
	return nil
}
