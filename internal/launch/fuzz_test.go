//go:build unix

package launch

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-go/coppice/internal/control"
)

// FuzzNotices hands lines to a launcher, as an agent might say them, reads them as an
// agent reads its orders, and reads the text as hosts and as ranks.
func FuzzNotices(f *testing.F) {
	for _, n := range []notice{
		{Type: noticeStarted, Rank: 1, PID: 7},
		{Type: noticeOutput, Rank: 1, Data: []byte("x\ny")},
		{Type: noticeClosed, Rank: 1, Stream: 1},
		{Type: noticeExited, Rank: 1, Status: &status{Exit: 3}, Will: control.Will{Record: []byte("r")}},
		{Type: noticeRefused, Text: "no\nprogram"},
	} {
		started, _ := json.Marshal(notice{Type: noticeStarted, Rank: 1, PID: 7})
		line, err := json.Marshal(n)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(line))
		f.Add(string(started) + "\n" + string(line) + "\n" + string(line))
	}
	orders, _ := json.Marshal(agentOrders{Ranks: []int{1}, Program: "x", Coordinator: "h:1"})
	for _, text := range []string{string(orders), `{"signal":15,"kill":1}`, "a:4,b", "a:4,a:1", "0,3-5", "5-3", "-1", "0-99999999999999999999"} {
		f.Add(text)
	}
	server, err := control.Serve(control.ServerConfig{Dir: f.TempDir() + "/coppice-f", Size: 3})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(server.Close)
	f.Fuzz(func(t *testing.T, text string) {
		r := &remote{
			server: server, orders: agentOrders{Ranks: []int{1}, Life: 1}, relays: map[int][streams]*relay{}, ended: func(ending) {},
			pids: map[int]int{}, running: map[int]bool{}, started: make(chan error, 1),
		}
		output := Output{}
		relays, err := output.newRelays(&screen{}, 1, false)
		if err != nil {
			t.Fatal(err)
		}
		r.relays[1] = relays
		for line := range strings.Lines(text) {
			var n notice
			var a agentOrders
			var c command
			if json.Unmarshal([]byte(line), &n) == nil && r.hear(n) != nil {
				break
			}
			_, _ = json.Unmarshal([]byte(line), &a), json.Unmarshal([]byte(line), &c)
		}
		if !strings.HasPrefix(text, "@") { // the name of a file
			hosts, err := ParseHosts(text)
			for _, h := range hosts {
				if err == nil && (h.Slots < 1 || h.Name == "" || h.Name[0] == '-') {
					t.Errorf("%q names %+v", text, h)
				}
			}
		}
		const n = 100
		ranks, err := ParseRanks(text, n)
		if err != nil {
			return
		}
		if again, err := ParseRanks(strings.ReplaceAll(rankList(ranks), " ", ""), n); err != nil || !slices.Equal(again, ranks) || ranks[0] < 0 || ranks[len(ranks)-1] >= n {
			t.Errorf("%q is %v, and %q is %v (%v)", text, ranks, rankList(ranks), again, err)
		}
	})
}
