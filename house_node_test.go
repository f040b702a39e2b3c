package coppice_test

import (
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
)

// nodeRooms are the rooms of a Process: the field that is the room, and the files that may use
// what is in it. Others call its methods.
var nodeRooms = map[string]string{
	"mesh":     "peer connect incoming lives local observe outgoing progress read settle share",
	"views":    "views drain lives moves",
	"recovery": "rules abort backup copies epoch load logmemory lost moves outlive replay",
	"groups": "member agree agreed ahead buffers call check choose dispatch inquiry kill machine mismatch operation plan release " +
		"returned revoke scheduled step stream table",
}

// nodeRoomsClosed: in internal/node, a room's fields are used by its own files.
func nodeRoomsClosed(files []file) (breaches []string) {
	for _, f := range goFiles(files) {
		name := strings.TrimSuffix(path.Base(f.path), ".go")
		if f.dir() != "internal/node" || f.isTest() || name == "process" {
			continue
		}
		closed := func(n ast.Expr) bool {
			s, ok := n.(*ast.SelectorExpr)
			return ok && nodeRooms[s.Sel.Name] != "" && !slices.Contains(strings.Fields(nodeRooms[s.Sel.Name]), name)
		}
		methods := map[ast.Expr]bool{}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				methods[n.Fun] = true
			case *ast.SelectorExpr:
				if closed(n.X) && !methods[n] {
					breaches = append(breaches, f.at(n, "%s of room %s is used outside of it", n.Sel.Name, n.X.(*ast.SelectorExpr).Sel.Name))
				}
			case *ast.UnaryExpr:
				if n.Op == token.AND && closed(n.X) {
					breaches = append(breaches, f.at(n, "room %s is used outside of it", n.X.(*ast.SelectorExpr).Sel.Name))
				}
			}
			return true
		})
	}
	return breaches
}
