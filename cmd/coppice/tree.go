package main

import (
	"bufio"
	"fmt"
	"strconv"

	"github.com/coppice-go/coppice/logp"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
	"github.com/coppice-go/coppice/topology"
)

// groupFlags are those of every command about a group of processes. Which
// trees there are is said by the command, in ${trees}.
type groupFlags struct {
	L     int64  `json:"L" name:"latency" short:"L" default:"2" placeholder:"l" help:"LogP latency, 0 or more (default ${default})."`
	O     int64  `json:"o" name:"overhead" short:"o" default:"1" placeholder:"o" help:"LogP overhead of a send and of a receive, 1 or more (default ${default})."`
	Tree  string `json:"tree" default:"binomial" placeholder:"T" help:"${trees} (default ${default})."`
	Order string `json:"order" default:"interleaved" placeholder:"O" help:"Numbering of the ranks: interleaved or in-order (default ${default})."`
	Root  int    `json:"root" default:"0" placeholder:"R" help:"Rank of the root (default ${default})."`
}

type treeCmd struct {
	P int `name:"processes" short:"P" required:"" placeholder:"N" help:"Number of processes."`
	groupFlags
	JSON bool `name:"json" help:"Print JSON."`
}

func (t *treeCmd) Run(c *console) error {
	tree, err := t.tree()
	if err != nil {
		return badInput{err}
	}
	return c.print(func(w *bufio.Writer) {
		switch {
		case t.JSON:
			writeParents(w, tree)
		case t.P <= drawMax:
			drawTree(w, tree, strconv.Itoa)
		default:
			listParents(w, tree)
		}
	})
}

func (t *treeCmd) tree() (topology.Tree, error) {
	if err := (logp.Network{P: 1, L: protocol.Time(t.L), O: protocol.Time(t.O)}).Check(); err != nil {
		return nil, err
	}
	order, err := topology.ParseOrder(t.Order)
	if err != nil {
		return nil, err
	}
	shape, err := topology.ParseShape(t.Tree)
	if err != nil {
		return nil, err
	}
	tree, err := shape.Tree(t.P, order, int(t.L), int(t.O))
	if err != nil {
		return nil, err
	}
	if t.Root < 0 || t.Root >= t.P {
		return nil, fmt.Errorf("root %d; allowed: 0 to %d", t.Root, t.P-1)
	}
	return topology.Rooted(tree, t.Root), nil
}

// writeParents streams the JSON document, on one line.
func writeParents(w *bufio.Writer, tree topology.Tree) {
	w.WriteString(`{"parent":[`)
	for r := range tree.Size() {
		if r > 0 {
			w.WriteByte(',')
		}
		w.Write(strconv.AppendInt(w.AvailableBuffer(), int64(tree.Parent(r)), 10))
	}
	w.WriteString("]}\n")
}

func listParents(w *bufio.Writer, tree topology.Tree) {
	w.WriteString("rank parent\n")
	for r := range tree.Size() {
		line := strconv.AppendInt(w.AvailableBuffer(), int64(r), 10)
		line = append(line, ' ')
		line = strconv.AppendInt(line, int64(tree.Parent(r)), 10)
		w.Write(append(line, '\n'))
	}
}

// drawMax is the largest tree that is drawn.
const drawMax = 64

// drawTree draws a tree, one rank a line, with the label of each.
func drawTree(w *bufio.Writer, tree topology.Tree, label func(rank int) string) {
	var draw func(r int, indent string)
	draw = func(r int, indent string) {
		w.WriteString(label(r) + "\n")
		for i := 0; ; i++ {
			child := tree.Child(r, i)
			if child < 0 {
				return
			}
			branch, below := "├─ ", "│  "
			if tree.Child(r, i+1) < 0 {
				branch, below = "└─ ", "   "
			}
			w.WriteString(indent + branch)
			draw(child, indent+below)
		}
	}
	draw(tree.Root(), "")
}

// ringFlags are the details of correction. When it begins by default is said by
// the command, in ${sync}.
type ringFlags struct {
	Sync  string `json:"sync" enum:"synchronized,overlapped" default:"${sync}" placeholder:"S" help:"When correction begins: synchronized, at the fault-free end of dissemination, or overlapped, at each process after its part in it (default ${default})."`
	Early string `json:"early,omitempty" enum:",join,serve" default:"" placeholder:"E" help:"What a process does that overlapped correction reaches early: join (default) takes part in correction, serve only serves its children."`
	First string `json:"first" group:"ring" enum:"left,right" default:"left" placeholder:"SIDE" help:"Side that correction sends to first: left or right (default ${default})."`
	Wrap  bool   `json:"wrap" group:"ring" default:"true" negatable:"" help:"Correction goes around past the root; --wrap=false keeps the ring open there."`
	Sides int    `json:"sides" group:"ring" enum:"1,2" default:"2" placeholder:"N" help:"Sides that correction sends to, 1 or 2 (default ${default})."`
}

// spec describes the broadcast that the flags ask for.
func (g groupFlags) spec(p int, correction string, ring ringFlags) (broadcast.Spec, error) {
	spec := broadcast.Spec{
		P: p, Root: protocol.Rank(g.Root), Tree: g.Tree, Correction: correction,
		L: protocol.Time(g.L), O: protocol.Time(g.O),
		Ring:         broadcast.Ring{Open: !ring.Wrap, OneSided: ring.Sides == 1},
		Synchronized: ring.Sync == "synchronized",
	}
	if g.Root < 0 || g.Root >= p { // before it is cut to 32 bits
		return spec, fmt.Errorf("root %d; allowed: 0 to %d", g.Root, p-1)
	}
	if ring.First == "right" {
		spec.Ring.First = broadcast.ToRight
	}
	if ring.Early == "serve" {
		spec.Early = broadcast.Serve
	}
	if ring.Early != "" && spec.Synchronized {
		return spec, fmt.Errorf("--early %s with synchronized correction, where nobody is early; allowed with: --sync overlapped", ring.Early)
	}
	var err error
	spec.Order, err = topology.ParseOrder(g.Order)
	return spec, err
}
