package vet

import (
	"go/token"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// silences are the comments //coppice:ok of a package.
type silences struct {
	lines  map[string]map[int]bool // by file: the lines whose reports are silenced
	silent []token.Pos             // comments that give no reason
}

func readSilences(pass *analysis.Pass) silences {
	s := silences{lines: map[string]map[int]bool{}}
	for _, file := range pass.Files {
		for _, group := range file.Comments {
			for _, c := range group.List {
				reason, ok := strings.CutPrefix(c.Text, "//coppice:ok")
				if !ok {
					continue
				}
				if strings.TrimSpace(reason) == "" || reason[0] != ' ' {
					s.silent = append(s.silent, c.Pos())
					continue
				}
				at := pass.Fset.Position(c.Pos())
				if s.lines[at.Filename] == nil {
					s.lines[at.Filename] = map[int]bool{}
				}
				s.lines[at.Filename][at.Line] = true
				s.lines[at.Filename][at.Line+1] = true
			}
		}
	}
	return s
}

// covers reports whether a comment silences the reports of a line.
func (s silences) covers(at token.Position) bool { return s.lines[at.Filename][at.Line] }

// complain reports comments without a reason.
func (s silences) complain(pass *analysis.Pass) {
	for _, pos := range s.silent {
		pass.Report(analysis.Diagnostic{Pos: pos, Category: "silence", Message: "coppice:ok gives no reason; write //coppice:ok and why the line is right [silence]"})
	}
}
