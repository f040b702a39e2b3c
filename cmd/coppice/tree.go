package main

import (
	"bufio"
	"fmt"
	"strconv"

	"github.com/coppice-go/coppice/logp"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/topology"
)

// groupFlags are those of every command about a group of processes. Which
// trees there are is said by the command, in ${trees}.
type groupFlags struct {
	L     int64  `name:"latency" short:"L" default:"2" placeholder:"l" help:"LogP latency, 0 or more (default ${default})."`
	O     int64  `name:"overhead" short:"o" default:"1" placeholder:"o" help:"LogP overhead of a send and of a receive, 1 or more (default ${default})."`
	Tree  string `default:"binomial" placeholder:"T" help:"${trees} (default ${default})."`
	Order string `default:"interleaved" placeholder:"O" help:"Numbering of the ranks: interleaved or in-order (default ${default})."`
	Root  int    `default:"0" placeholder:"R" help:"Rank of the root (default ${default})."`
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
	return topology.Rooted(topology.Quick(tree), t.Root), nil
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
