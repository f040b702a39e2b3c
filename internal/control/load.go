package control

// A process that may use only so much memory says how many tasks it can own, and how
// much its own take. The coordinator decides nothing by it: the launcher wants to know
// whether those that are left can do without the dead.

// load is what a process has said of its memory.
type load struct {
	most int   // tasks that it can own
	each int64 // bytes that one takes
}

// Load tells how many tasks this process can own, and how many bytes one of its own
// takes. It is told again when that has changed.
func (c *Client) Load(most int, each int64) {
	line := message{Type: sayLoad, Tasks: most, Bytes: each}.line()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.load = line
	c.say(line)
}

// Room is what the processes that live have said of their memory.
type Room struct {
	Known   bool  // all in the latest view have told
	Free    int   // tasks that they can own beside those that they own
	Orphans int   // tasks whose owner is dead, and those that nobody owns
	Each    int64 // bytes that a task takes, the most that was told
}

// Room tells whether there is room for the tasks of the dead. What is not known of a
// process counts as plenty.
func (s *Server) Room() (r Room) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.view
	if v == nil {
		v = s.firstView(s.cfg.Size)
	}
	r.Known = v.Owners != nil
	owned := map[int]int{}
	for _, owner := range v.Owners {
		owned[owner]++
	}
	for _, who := range v.Members {
		m := s.life(who)
		if m == nil || m.death != nil {
			continue
		}
		n := owned[m.rank]
		delete(owned, m.rank)
		if m.load == nil {
			r.Known = r.Known && n == 0 // one without tasks cannot say, and has room
			r.Free = unlimited
			continue
		}
		r.Free = min(r.Free+max(m.load.most-n, 0), unlimited)
		r.Each = max(r.Each, m.load.each)
	}
	for _, n := range owned {
		r.Orphans += n
	}
	return r
}

// unlimited is more tasks than there can be.
const unlimited = 1 << 30
