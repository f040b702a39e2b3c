package control

// A process with limited memory reports how many tasks it can own, and how
// much memory its own tasks take. The coordinator decides nothing by it: the launcher needs to know
// whether the survivors can do without the dead processes.

// load is what a process has reported about its memory.
type load struct {
	most int   // how many tasks it can own
	each int64 // how many bytes one takes
}

// Load reports how many tasks this process can own, and how many bytes one of its own
// takes. Call it again when that has changed.
func (c *Client) Load(most int, each int64) {
	line := message{Type: sayLoad, Tasks: most, Bytes: each}.line()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.load = line
	c.say(line)
}

// Room is what the live processes have reported about their memory.
type Room struct {
	Known   bool  // all processes in the latest view have reported
	Free    int   // how many more tasks they can own
	Orphans int   // tasks whose owner is dead, and tasks without an owner
	Each    int64 // bytes that a task takes, the largest reported
}

// Room reports whether there is room for the tasks of the dead. A process that has reported nothing
// counts as having plenty.
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
			r.Known = r.Known && n == 0 // a process without tasks cannot know, and has room
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

// unlimited is more than any number of tasks.
const unlimited = 1 << 30
