package detection

import (
	"fmt"
	"strings"
	"testing"

	"github.com/coppice-go/coppice/internal/plant"
)

// Mistakes in detectors, planted to check that the tests find them.
var mistakes = []struct {
	name, file string
	old, new   string
	found      string // by this scenario
}{
	{"last one fenced", "guard.go", `if others == 0 {`, `if others == 0 && !wrong("last one fenced") {`, "guard: the only one stops"},
	{"all fenced", "guard.go", `{ return m.present && m.quiet < silence }`, `{ return m.present && (m.quiet < silence || wrong("all fenced")) }`, "guard: all stop"},
	{"most fenced together", "guard.go", `if 2*healthy < present {`, `if 2*healthy < present && !wrong("most fenced together") {`, "guard: two of three stop"},
	{"the first to come back fences the others", "guard.go", `			m.silent, m.stopped = 0, 0
			continue`, `			if !wrong("the first to come back fences the others") {
				m.silent, m.stopped = 0, 0
			}
			continue`, "guard: all stop, and go on one after the other"},
	{"kernel not asked", "guard.go", `if e == Working {`, `if e == Working && !wrong("kernel not asked") {`, "guard: work that the kernel sees"},
	{"successor fenced", "guard.go", `m.silent >= g.limit() && !m.tainted`, `m.silent >= g.limit() && (!m.tainted || wrong("successor fenced"))`, "guard: work that keeps whoever does it from beating"},
	{"a short stop added to what came before", "guard.go", `if e == Stopped { //`, `if e == Stopped && !wrong("a short stop added to what came before") { //`, "guard: a stop after work"},
	{"own stall ignored by the guard", "guard.go", `passed := min(now-g.last, 2*g.Every())`, `passed := min(now-g.last, 2*g.Every())
	if wrong("own stall ignored by the guard") {
		passed = now - g.last
	}`, "guard: the coordinator and all others stand still"},
	{"no start-up", "guard.go", `if !g.begun {`, `if !g.begun && !wrong("no start-up") {`, "guard: a slow start"},

	{"accuser believed", "doubt.go", `	case t.hear > 0:
`, `	case t.hear > 0 && wrong("accuser believed"):
		suspect("and others are not asked")
	case t.hear > 0:
`, "two hosts cut from each other"},
	{"own stall ignored", "observer.go", `if pause <= o.beat {`, `if pause <= o.beat || wrong("own stall ignored") {`, "a host cut off for less than the silence, and watchers that pause"},
	{"the cut off accuse", "doubt.go", `	case t.cutOff():
`, `	case t.cutOff() && wrong("the cut off accuse"):
		suspect("and nobody answers")
	case t.cutOff():
`, "a host cut off for about the silence"},
	{"the deaf are heard", "observer.go", `if from != Coordinator && !m.Deaf {`, `if from != Coordinator && (!m.Deaf || wrong("the deaf are heard")) {`, "the first host is heard, but hears nobody"},
	{"both hosts go", "doubt.go", `			return y.host == mine
`, `			return y.host == mine || wrong("both hosts go")
`, "two hosts cut from each other"},
	{"slow taken for silent", "doubt.go", `	case t.slow:
`, `	case t.slow && !wrong("slow taken for silent"):
`, "long work that the kernel sees"},
	{"stale answers", "doubt.go", `return at != 0 && now-at <= 4*o.beat }`, `return at != 0 && (now-at <= 4*o.beat || wrong("stale answers")) }`, "the launcher cut off, and then a host"},
	{"nobody else is told", "doubt.go", `		d.rumorAt = now
		return`, `		if d.rumorAt = now; wrong("nobody else is told") {
			d.rumorAt = 0
		}
		return`, "the first host loses power"},
	{"who has lost most connections accuses", "doubt.go", `len(down) > up {`, `len(down) > up && !wrong("who has lost most connections accuses") {`, "a host that can connect to one other only"},
	{"complaints that waited are taken for complaints that last", "doubt.go", `x.misses.last-x.misses.first < 4*o.beat`, `(x.misses.last-x.misses.first < 4*o.beat && (!wrong("complaints that waited are taken for complaints that last") || now-x.misses.first < 4*o.beat))`, "long work that the kernel sees, again and again"},
	{"no probe before the verdict", "doubt.go", `silent < o.allowed(x)+2*o.beat`, `silent < o.allowed(x)+2*o.beat && (!wrong("no probe before the verdict") || silent < o.allowed(x)*3/4)`, "a host cut off for less than the silence"},
}

func TestMistakesPlantedInDetectionAreFound(t *testing.T) {
	garden := &plant.Garden{
		Machine: "../../protocol/suspicion", Package: "suspicion",
		Healthy: "^TestTheGuardFencesOnlyWhomOthersCanReplace$",
	}
	for _, m := range mistakes {
		test := fmt.Sprintf("^TestNobodyHealthyIsEvicted$/^%s$", strings.ReplaceAll(m.found, " ", "_"))
		if name, guard := strings.CutPrefix(m.found, "guard: "); guard {
			test = fmt.Sprintf("^TestTheGuardFencesOnlyWhomOthersCanReplace$/^%s$", strings.ReplaceAll(name, " ", "_"))
		}
		garden.Mistakes = append(garden.Mistakes, plant.Mistake{Name: m.name, File: m.file, Old: m.old, New: m.new, Test: test})
	}
	garden.Find(t)
}
