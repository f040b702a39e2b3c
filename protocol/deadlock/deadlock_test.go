package deadlock

import "testing"

// recv is a task that waits for the first message of another.
func recv(task, from int) Wait {
	return Wait{Task: task, Kind: Message, Seq: 1, Rank: task, Peer: from}
}

// row is so many tasks that wait for the next one each.
func row(n int) (all []Wait) {
	for i := range n {
		all = append(all, recv(i, i+1))
	}
	return all
}

func TestArrive(t *testing.T) {
	at := func(task int, kind Kind, peer int) Wait {
		return Wait{Task: task, Kind: kind, Seq: 7, Rank: task, Peer: peer}
	}
	own := func(w Wait) *Wait { return &w }
	for _, c := range []struct {
		name string
		path []Wait
		rank int
		done bool
		own  *Wait
		want Turn
	}{
		{"back at the first", []Wait{recv(0, 1), recv(1, 0)}, 0, false, own(recv(0, 1)), Cycle},
		{"it waits for another by now", []Wait{recv(0, 1), recv(1, 0)}, 0, false, own(recv(0, 2)), Drop},
		{"it waits for the next message by now", []Wait{recv(0, 1), recv(1, 0)}, 0, false, own(Wait{Task: 0, Kind: Message, Seq: 2, Peer: 1}), Drop},
		{"it waits in another group", []Wait{recv(0, 1), recv(1, 0)}, 0, false, own(Wait{Task: 0, Kind: Message, Seq: 1, Peer: 1, Group: 5}), Drop},
		{"it waits in another epoch", []Wait{recv(0, 1), recv(1, 0)}, 0, false, own(Wait{Task: 0, Kind: Message, Seq: 1, Peer: 1, Epoch: 5}), Drop},
		{"it goes on", []Wait{recv(0, 1), recv(1, 0)}, 0, false, nil, Drop},
		{"it has sent", []Wait{recv(0, 1), recv(1, 0)}, 0, true, own(recv(0, 1)), Drop},
		{"another one waits, too", []Wait{recv(0, 1)}, 1, false, own(recv(1, 2)), Follow},
		{"one before the first", []Wait{recv(1, 0)}, 0, false, own(recv(0, 1)), Drop},
		{"a cycle without the first", []Wait{recv(0, 1), recv(1, 2), recv(2, 1)}, 1, false, own(recv(1, 2)), Drop},
		{"the message is another's", []Wait{recv(0, 1)}, 2, false, own(recv(2, 0)), Drop},
		{"all have to enter", []Wait{at(0, All, 0)}, 3, false, own(recv(3, 0)), Follow},
		{"it has entered", []Wait{at(0, All, 0)}, 3, true, own(at(3, All, 0)), Pass},
		{"it has entered, and goes on", []Wait{at(0, All, 0)}, 3, true, nil, Pass},
		{"the root has to enter", []Wait{at(0, Root, 3)}, 3, false, own(recv(3, 0)), Follow},
		{"the root has entered", []Wait{at(0, Root, 3)}, 3, true, own(at(3, All, 0)), Drop},
		{"others than the root need not", []Wait{at(0, Root, 3)}, 2, false, own(recv(2, 0)), Drop},
		{"those before have to enter", []Wait{at(4, Before, 0), recv(6, 5)}, 5, false, own(recv(5, 4)), Follow},
		{"one before in a scan", []Wait{at(4, Before, 0)}, 5, false, own(recv(5, 4)), Drop},
		{"one after in a scan", []Wait{{Task: 1, Kind: Before, Seq: 7, Rank: 5}}, 4, false, own(recv(4, 1)), Follow},
		{"a cycle that is too long", row(PathMax), PathMax, false, own(recv(PathMax, 0)), Drop},
		{"a long one", row(PathMax - 1), PathMax - 1, false, own(recv(PathMax-1, 0)), Follow},
		{"an unknown kind", []Wait{at(0, 99, 0)}, 3, false, own(recv(3, 0)), Drop},
	} {
		chase := &Chase{Path: c.path, Hops: 3}
		if got := chase.Arrive(c.rank, c.done, c.own); got != c.want || chase.Found != (c.want == Cycle) {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
		if grown := len(chase.Path) == len(c.path)+1 && *chase.Last() == *c.own && chase.Hops == 0; grown != (c.want == Follow) {
			t.Errorf("%s: the path is %v", c.name, chase.Path)
		}
	}
}
