package control

import (
	"slices"
	"strings"
	"testing"
)

func TestNodeListsAreExpanded(t *testing.T) {
	for list, want := range map[string]string{
		"node1":                      "node1",
		"node1,node2":                "node1 node2",
		"node[1-4,7],gpu01":          "node1 node2 node3 node4 node7 gpu01",
		"n[08-11]":                   "n08 n09 n10 n11",
		"n[8-11]":                    "n8 n9 n10 n11",
		"n[098-101]":                 "n098 n099 n100 n101",
		"n[1,03,5-6]":                "n1 n03 n5 n6",
		"rack[0-1]node[1-2]":         "rack0node1 rack0node2 rack1node1 rack1node2",
		"n[1-2]-ib":                  "n1-ib n2-ib",
		"a_b.example.org,c[1].local": "a_b.example.org c1.local",
	} {
		got, count, err := expandNodes(list, 100)
		if err != nil || strings.Join(got, " ") != want || count != len(got) {
			t.Errorf("%s: %v, %d, %v; want %s", list, got, count, err, want)
		}
	}
}

func TestOnlyTheFirstNodesAreExpanded(t *testing.T) {
	got, count, err := expandNodes("n[1-9],m[000001-900000]", 3)
	if err != nil || !slices.Equal(got, []string{"n1", "n2", "n3"}) || count != 900009 {
		t.Errorf("%v, %d, %v", got, count, err)
	}
}

func TestBadNodeListsAreRefused(t *testing.T) {
	for list, want := range map[string]string{
		"":                            "an empty name",
		"a,":                          "an empty name",
		",a":                          "an empty name",
		"n[1-":                        "a bracket without its end",
		"n[1-2":                       "a bracket without its end",
		"n]1":                         `"]" in a name`,
		"n[]":                         "[]",
		"n[4-1]":                      "[4-1]",
		"n[1--2]":                     "[1--2]",
		"n[+1]":                       "[+1]",
		"n[a-b]":                      "[a-b]",
		"n[1,[2]]":                    "[[2]",
		"n[0-9999999999]":             "[0-9999999999]",
		"n[0-999999999]":              "more than 1048576 nodes",
		"n[0-9999]m[0-9999]":          "more than 1048576 nodes",
		"n[0-999999],m[0-999999]":     "more than 1048576 nodes",
		"a b":                         `" " in a name`,
		"(null)":                      `"(" in a name`,
		"n[0-999999999,0-999999999]x": "more than 1048576 nodes",
	} {
		if got, _, err := expandNodes(list, 3); err == nil || err.Error() != want {
			t.Errorf("%s: %v, %v; want %s", list, got, err, want)
		}
	}
}

func TestTasksOfNodes(t *testing.T) {
	for _, c := range []struct {
		list                            string
		node, here, wantNodes, wantTask int
	}{
		{"4(x2),3", 0, 4, 3, 11},
		{"4(x2),3", 1, 4, 3, 11},
		{"4(x2),3", 2, 3, 3, 11},
		{"4(x2),3", 3, 0, 3, 11},
		{"7", 0, 7, 1, 7},
		{"1,2,3", 1, 2, 3, 6},
	} {
		here, nodes, tasks, err := tasksOfNodes(c.list, c.node)
		if err != nil || here != c.here || nodes != c.wantNodes || tasks != c.wantTask {
			t.Errorf("%s, node %d: %d, %d, %d, %v", c.list, c.node, here, nodes, tasks, err)
		}
	}
	for list, want := range map[string]string{
		"": `""`, "x": `"x"`, "2(": `"2("`, "2(x": `"2(x"`, "2(x2": `"2(x2"`, "2(x0)": `"2(x0)"`, "0": `"0"`, "2,": `""`,
		"-2": `"-2"`, "2(x2)2": `"2(x2)2"`, "999999(x999999)": "more than 4096 tasks",
	} {
		if _, _, _, err := tasksOfNodes(list, 0); err == nil || err.Error() != want {
			t.Errorf("%s: %v; want %s", list, err, want)
		}
	}
}

// FuzzNodeList compares with a version that expands everything, and looks that names are names.
func FuzzNodeList(f *testing.F) {
	for _, seed := range []string{"node[1-4,7],gpu01", "n[08-11]", "rack[0-1]node[1-2]", "n[1-", "n]", "", "a,,b", "n[1-2]x[3,4]y"} {
		f.Add(seed, 3)
	}
	f.Fuzz(func(t *testing.T, list string, most int) {
		most = max(1, most%10)
		first, count, err := expandNodes(list, most)
		if err != nil {
			if first != nil || strings.Contains(err.Error(), "\n") && !strings.Contains(list, "\n") {
				t.Errorf("%q: %v with %q", list, err, first)
			}
			return
		}
		if len(first) != min(most, count) || count < 1 {
			t.Errorf("%q: %d of %d names, of at most %d", list, len(first), count, most)
		}
		for _, name := range first {
			if name == "" || strings.IndexFunc(name, notInName) >= 0 {
				t.Errorf("%q: name %q", list, name)
			}
		}
		if count <= 2000 {
			all, again, err := expandNodes(list, count)
			if err != nil || again != count || len(all) != count || !slices.Equal(all[:len(first)], first) {
				t.Errorf("%q: %q, then %q, %v", list, first, all, err)
			}
			// Written out, the list is the same.
			out, n, err := expandNodes(strings.Join(all, ","), count)
			if err != nil || n != count || !slices.Equal(out, all) {
				t.Errorf("%q: %q is %q, %v", list, all, out, err)
			}
		}
	})
}
