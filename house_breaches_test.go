package coppice_test

import (
	"fmt"
	"strings"
	"testing"
)

// planted are small sets of files and what a rule must say about them; want is part
// of its only complaint, or "" if it must not complain.
var planted = []struct {
	name  string
	check rule
	files map[string]string // path → text
	want  string
}{
	{"a folder outside the table", importsOneWay, goFile("attic/a.go", ""), "add it to the table"},
	{"an unknown folder below internal", importsOneWay, goFile("internal/attic/a.go", ""), "add it to the table"},
	{"an unknown folder with tests only", importsOneWay, goFile("attic/a_test.go", ""), "add it to the table"},
	{"testdata is no room", importsOneWay, goFile("testdata/a.go", ""), ""},

	{"topology → protocol", importsOneWay, ours("topology", "protocol"), `"topology" may not import "protocol"`},
	{"a test of topology → logp", importsOneWay, goFile("topology/a_test.go", imports(module+"/logp")), `may not import "logp"`},
	{"a test of topology → topology", importsOneWay, goFile("topology/a_test.go", imports(module+"/topology")), ""},
	{"a test of protocol → chaos", importsOneWay, goFile("protocol/a_test.go", imports(module+"/chaos")), ""},
	{"protocol → topology", importsOneWay, ours("protocol", "topology"), ""},
	{"protocol → logp", importsOneWay, ours("protocol", "logp"), `may not import "logp"`},
	{"protocol → its subfolder", importsOneWay, ours("protocol", "protocol/broadcast"), `may not import "protocol/broadcast"`},
	{"broadcast → protocol", importsOneWay, ours("protocol/broadcast", "protocol"), ""},
	{"broadcast → topology", importsOneWay, ours("protocol/broadcast", "topology"), ""},
	{"broadcast → its own subfolder", importsOneWay, ours("protocol/broadcast", "protocol/broadcast/gossip"), ""},
	{"broadcast → its sibling", importsOneWay, ours("protocol/broadcast", "protocol/agreement"), `may not import "protocol/agreement"`},
	{"broadcast → recovery", importsOneWay, ours("protocol/broadcast", "protocol/recovery"), `may not import "protocol/recovery"`},
	{"recovery → its sibling", importsOneWay, ours("protocol/recovery", "protocol/membership"), ""},
	{"model → topology", importsOneWay, ours("model", "topology"), ""},
	{"model → protocol", importsOneWay, ours("model", "protocol"), `may not import "protocol"`},
	{"logp → what protocol may import", importsOneWay, ours("logp", "topology"), ""},
	{"logp → recovery", importsOneWay, ours("logp", "protocol/recovery"), ""},
	{"logp → chaos", importsOneWay, ours("logp", "chaos"), `may not import "chaos"`},
	{"logp → model", importsOneWay, ours("logp", "model"), `may not import "model"`},
	{"chaos → a folder that only starts like protocol", importsOneWay, ours("chaos", "protocols"), `may not import "protocols"`},
	{"experiment → logp and all below", importsOneWay, ours("experiment", "logp", "model", "protocol/broadcast", "topology"), ""},
	{"experiment → chaos", importsOneWay, ours("experiment", "chaos"), `may not import "chaos"`},
	{"the root → internal", importsOneWay, ours(".", "internal/launch", "internal/detect", "protocol/recovery"), ""},
	{"the root → logp", importsOneWay, ours(".", "logp"), `may not import "logp"`},
	{"node → the rest of its row", importsOneWay, ours("internal/node", "internal/wire", "internal/transport"), ""},
	{"node → launch", importsOneWay, ours("internal/node", "internal/launch"), `may not import "internal/launch"`},
	{"detect → protocol", importsOneWay, ours("internal/detect", "protocol"), `may not import "protocol"`},
	{"apps → the public API", importsOneWay, ours("apps/tpch", "."), ""},
	{"apps → below the public API", importsOneWay, ours("apps/tpch", "protocol"), `may not import "protocol"`},
	{"dashboard → the public API", importsOneWay, ours("dashboard", "."), `may not import "."`},
	{"the command → everything", importsOneWay, ours("cmd/coppice", ".", "apps/tpch", "chaos", "internal/launch", "logp"), ""},
	{"anything → the command", importsOneWay, ours("apps/tpch", "cmd/coppice"), `may not import "cmd/coppice"`},
	{"an import under another name", importsOneWay, goFile("model/a.go", `import x "`+module+`/logp"`), `may not import "logp"`},

	{"a network", pureRooms, pure(`import "net"`), `imports "net"`},
	{"a network's subpackage", pureRooms, pure(`import _ "net/http"`), `imports "net/http"`},
	{"the system", pureRooms, pure(`import "os"`), `imports "os"`},
	{"a clock", pureRooms, pure(`import "time"`), `imports "time"`},
	{"a clock under another name", pureRooms, pure(`import clock "time"`), `imports "time"`},
	{"a lock", pureRooms, pure(`import "sync"`), `imports "sync"`},
	{"an atomic", pureRooms, pure(`import "sync/atomic"`), `imports "sync/atomic"`},
	{"unsafe memory", pureRooms, pure(`import "unsafe"`), `imports "unsafe"`},
	{"a name that only starts like an impure one", pureRooms, pure(`import "network"`), ""},
	{"global randomness", pureRooms, pure(`import "math/rand"`, `var _ = rand.Intn(2)`), `Intn of "math/rand"`},
	{"global randomness, version 2", pureRooms, pure(`import "math/rand/v2"`, `var _ = rand.IntN(2)`), `IntN of "math/rand/v2"`},
	{"global randomness under another name", pureRooms, pure(`import dice "math/rand/v2"`, `var _ = dice.IntN(2)`), "IntN of"},
	{"global randomness as a value", pureRooms, pure(`import "math/rand/v2"`, `var f = rand.Uint64`), "Uint64 of"},
	{"a generator of its own", pureRooms, pure(`import "math/rand/v2"`, `func f(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }`), ""},
	{"output by fmt", pureRooms, pure(`import "fmt"`, `func f() { fmt.Println() }`), `Println of "fmt"`},
	{"formatting by fmt", pureRooms, pure(`import "fmt"`, `var _ = fmt.Sprint(1)`), ""},
	{"output by a builtin", pureRooms, pure(`func f() { println() }`), "output by println"},
	{"a goroutine", pureRooms, pure(`func f() { go f() }`), "a go statement"},
	{"a goroutine in a literal", pureRooms, pure(`var f = func() { go func() {}() }`), "a go statement"},
	{"a channel", pureRooms, pure(`type t struct{ c chan int }`), "a channel type"},
	{"a channel made", pureRooms, pure(`func f() { g(make(chan int)) }`), "a channel type"},
	{"a channel for sending", pureRooms, pure(`func f(c chan<- int) {}`), "a channel type"},
	{"a select", pureRooms, pure(`func f() { select {} }`), "a select statement"},
	{"a send", pureRooms, pure(`func f(c t) { c <- 1 }`), "a send on a channel"},
	{"a receive", pureRooms, pure(`func f(c t) { <-c }`), "a receive from a channel"},
	{"impurity below protocol", pureRooms, goFile("protocol/broadcast/a.go", imports("time")), `imports "time"`},
	{"a field of another room", nodeRoomsClosed, goFile("internal/node/stream.go", "func f(p *Process) { _ = p.mesh.peers }"), `peers of room mesh`},
	{"another room", nodeRoomsClosed, goFile("internal/node/stream.go", "func f(p *Process) { _ = &p.views }"), `room views`},
	{"a method of another room", nodeRoomsClosed, goFile("internal/node/stream.go", "func f(p *Process) { p.mesh.traffic() }"), ""},
	{"a field of its own room", nodeRoomsClosed, goFile("internal/node/connect.go", "func f(p *Process) { _ = p.mesh.peers }"), ""},
	{"impurity in recovery", pureRooms, goFile("protocol/recovery/a.go", imports("time")), `imports "time"`},
	{"impurity in topology", pureRooms, goFile("topology/a.go", imports("time")), `imports "time"`},
	{"a clock in a pure room's test", pureRooms, goFile("model/a_test.go", imports("time")), ""},
	{"a clock outside the pure rooms", pureRooms, goFile("chaos/a.go", imports("time")), ""},

	{"another module in a pure room", pureRoomsStandAlone, pure(`import "example.org/x/y"`), "another module"},
	{"our module in a pure room", pureRoomsStandAlone, ours("model", "topology"), ""},
	{"another module in a pure room's test", pureRoomsStandAlone, goFile("model/a_test.go", imports("example.org/x")), ""},

	{"Parquet where it belongs", heavyModulesApart, map[string]string{"apps/tpch/a.go": "//go:build parquet\n\npackage tpch\n" + imports("github.com/parquet-go/parquet-go/format")}, ""},
	{"Parquet in every build", heavyModulesApart, goFile("apps/tpch/a.go", imports("github.com/parquet-go/parquet-go")), "//go:build parquet"},
	{"Parquet elsewhere", heavyModulesApart, map[string]string{"cmd/coppice/a.go": "//go:build parquet\n\npackage main\n" + imports("github.com/parquet-go/parquet-go")}, `files in "apps/tpch"`},

	{"a dot import", noDotImports, goFile("logp/a.go", `import . "math"`), `dot import of "math"`},
	{"a dot import in a test", noDotImports, goFile("logp/a_test.go", `import . "math"`), `dot import of "math"`},

	{"a file that says nothing", tellingNames, goFile("logp/util.go", ""), `"util" says nothing`},
	{"a test that says nothing", tellingNames, goFile("logp/helpers_test.go", ""), `"helpers" says nothing`},
	{"a folder that says nothing", tellingNames, goFile("internal/common/queue.go", ""), `"common" says nothing`},
	{"a name that contains a vague one", tellingNames, goFile("logp/baseline.go", ""), ""},

	{"no package comment", onePackageComment, goFile("logp/a.go", ""), "in 0 files"},
	{"a directive is no package comment", onePackageComment, map[string]string{"logp/a.go": "//go:generate true\npackage logp\n"}, "in 0 files"},
	{"two package comments", onePackageComment, map[string]string{
		"logp/a.go": "// Package logp is one thing.\npackage logp\n",
		"logp/b.go": "// Package logp is another.\npackage logp\n",
	}, "in 2 files"},
	{"one package comment, and one on a test", onePackageComment, map[string]string{
		"logp/a.go":      "// Package logp is one thing.\npackage logp\n",
		"logp/b.go":      "package logp\n",
		"logp/a_test.go": "// A remark.\npackage logp\n",
	}, ""},
	{"a folder with tests only", onePackageComment, goFile("logp/a_test.go", ""), ""},

	{"a package that does not say that it may change", unstableSayIt, map[string]string{"logp/a.go": "// Package logp simulates.\npackage logp\n"}, "logp/a.go: the package comment lacks"},
	{"a package that says so", unstableSayIt, map[string]string{"logp/a.go": "// Package logp simulates. Its\n// API may change.\npackage logp\n"}, ""},
	{"a stable package that says so", unstableSayIt, map[string]string{"coppicetest/a.go": "// Package coppicetest tests. Its API may change.\npackage coppicetest\n"}, "is stable"},
	{"a stable package", unstableSayIt, map[string]string{"doc.go": "// Package coppice runs.\npackage coppice\n"}, ""},
	{"a command", unstableSayIt, map[string]string{"cmd/coppice/main.go": "// Command coppice runs.\npackage main\n"}, ""},
	{"an internal package", unstableSayIt, map[string]string{"internal/node/a.go": "// Package node runs.\npackage node\n"}, ""},

	{"a file of too many lines", shortFiles, goFile("logp/a.go", strings.Repeat("\n", linesMax)), "701 lines"},
	{"a file of just enough lines", shortFiles, goFile("logp/a.go", strings.Repeat("\n", linesMax-1)), ""},
	{"a long file that is not Go", shortFiles, map[string]string{"a.txt": strings.Repeat("\n", 2*linesMax)}, ""},

	{"a promise", nothingUnfinished, goFile("logp/a.go", "// TODO: later\n"), "a.go:2: TODO"},
	{"a promise inside a function", nothingUnfinished, goFile("logp/a.go", "func f() {\n\tg() /* FIXME */\n}\n"), "a.go:3: FIXME"},
	{"a promise in a string", nothingUnfinished, goFile("logp/a.go", `const s = "TODO"`), ""},

	{"a home folder", noMachinePath, text("see " + slash("home/me/x")), "notes.md:1"},
	{"a home folder in Go", noMachinePath, goFile("logp/a.go", `const dir = "`+slash("root/x")+`"`), "a.go:2"},
	{"a working folder in testdata", noMachinePath, map[string]string{"testdata/a.txt": "\n" + slash("work/x")}, "a.txt:2"},
	{"a home folder as an address", noMachinePath, text("file://" + slash("Users/me/x")), "notes.md:1"},
	{"a promise on a page", noPromises, map[string]string{"docs/a.md": "one\nAgreement, which is to come.\n"}, `docs/a.md:2: "is to come"`},
	{"a promise in a table", noPromises, text("| here | still to come |"), "still to come"},
	{"a thing that is not yet", noPromises, text("It does not yet work."), "not yet"},
	{"a thing that will be", noPromises, text("Windows will be supported."), "will be supported"},
	{"a thing for now", noPromises, text("That ends the job for now."), "for now"},
	{"a plan", noPromises, text("Kubernetes is planned."), "planned"},
	{"a promise in a package comment", noPromises, map[string]string{"logp/a.go": "// Package logp lists what is to come.\npackage logp\n"}, "a.go:1"},
	{"a promise in a comment on a field", noPromises, goFile("logp/a.go", "type t struct {\n\t// Later: not yet built\n\tLater int\n}\n"), "a.go:3"},
	{"a promise in a test", noPromises, goFile("logp/a_test.go", "// f is planned.\nfunc f() {}\n"), ""},
	{"a promise in the log of changes", noPromises, map[string]string{"CHANGELOG.md": "not yet"}, ""},
	{"a promise in a decision", noPromises, map[string]string{"docs/decisions/a.md": "not yet"}, ""},
	{"time that passes", noPromises, text("As soon as it returns there will be none; how soon?"), ""},

	{"a link to nothing", linksLead, text("a\n[b](gone.md)"), "notes.md:2: links to gone.md"},
	{"a link to a heading that is missing", linksLead, text("# A title, here\n[b](#a-title) [c](#a-title-here)"), "notes.md#a-title: no such"},
	{"a link to a folder and to the net", linksLead, map[string]string{"docs/a.md": "[x](../logp/) [y](https://example.org)", "logp/a.go": "package logp\n"}, ""},
	{"a link in a program", linksLead, text("```go\nx[i](gone.md)\n```"), ""},

	{"a page that the index does not list", indexListsPages, map[string]string{"docs/README.md": "[a](a.md)", "docs/a.md": "", "docs/b.md": ""}, "docs/b.md"},
	{"a page of a folder that the index lists", indexListsPages, map[string]string{"docs/README.md": "[a](a/)", "docs/a/b.md": ""}, ""},

	{"part of a longer path", noMachinePath, text("https://example.org/home/x ./work/x ~/work/x $HOME/work/x"), ""},
}

func TestHouseRulesFindPlantedBreaches(t *testing.T) {
	for _, p := range planted {
		t.Run(p.name, func(t *testing.T) {
			var files []file
			for name, text := range p.files {
				files = append(files, parse(t, name, text))
			}
			found := p.check(files)
			switch {
			case p.want == "" && len(found) > 0:
				t.Errorf("found %q, want nothing", found)
			case p.want != "" && (len(found) != 1 || !strings.Contains(found[0], p.want)):
				t.Errorf("found %q, want one with %q", found, p.want)
			}
		})
	}
}

// Every rule must have been seen to fail.
func TestEveryHouseRuleHasAPlantedBreach(t *testing.T) {
	failed := map[string]bool{}
	for _, p := range planted {
		failed[fmt.Sprintf("%p", p.check)] = failed[fmt.Sprintf("%p", p.check)] || p.want != ""
	}
	for _, r := range rules {
		if !failed[fmt.Sprintf("%p", r.check)] {
			t.Errorf("no planted breach of %q", r.name)
		}
	}
}

// The walk must find what the rules are about.
func TestHouseRulesReadTheWholeTree(t *testing.T) {
	found := map[string]bool{}
	for _, f := range readTree(t) {
		found[f.path] = true
	}
	for _, name := range []string{"doc.go", "house_test.go", "protocol/protocol.go", "go.mod", ".ci/run", "docs/design.md"} {
		if !found[name] {
			t.Errorf("%s was not read", name)
		}
	}
}

func goFile(name, body string) map[string]string {
	return map[string]string{name: "package p\n" + body}
}

func imports(paths ...string) (body string) {
	for _, p := range paths {
		body += fmt.Sprintf("import %q\n", p)
	}
	return body
}

// ours is a file in folder from that imports folders of ours.
func ours(from string, to ...string) map[string]string {
	for i, folder := range to {
		to[i] = strings.TrimSuffix(module+"/"+folder, "/.")
	}
	return goFile(strings.TrimPrefix(from+"/a.go", "./"), imports(to...))
}

// pure is a file of a pure room.
func pure(lines ...string) map[string]string {
	return goFile("model/a.go", strings.Join(lines, "\n"))
}

func text(s string) map[string]string { return map[string]string{"notes.md": s} }

// slash makes an absolute path that the rule does not find in this file.
func slash(p string) string { return "/" + p }
