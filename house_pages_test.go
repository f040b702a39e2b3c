package coppice_test

// The rules for pages: README.md, docs and the comments that go doc shows. They say what is, and lead somewhere.

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// promise matches words about what does not exist. Who has to read that learns nothing that can be used.
var promise = regexp.MustCompile(`(?i)(\b(is|are|still|what is) to come\b|\bto come[:.]|^to come\b|\bnot yet\b|\byet to be\b|` +
	`\bwill be (added|available|built|fixed|implemented|possible|removed|replaced|supported|written)\b|` +
	`\bstill to be (added|built|done|written)\b|\bfor now\b|\bcoming soon\b|\bsoon (be|to be|have|support)\b|` +
	`\b(is|are) planned([.,;:)]|$| for)|\bin (the|a) (future|later version)\b|\bTO` + `DO\b)`)

func noPromises(files []file) (breaches []string) {
	for _, f := range files {
		if path.Ext(f.path) == ".md" && f.path != "CHANGELOG.md" && !within(f.dir(), "docs/decisions") {
			for i, line := range strings.Split(f.text, "\n") {
				if words := promise.FindString(line); words != "" {
					breaches = append(breaches, fmt.Sprintf("%s:%d: %q is a promise: say what is", f.path, i+1, words))
				}
			}
		}
		if f.syntax == nil || f.isTest() {
			continue
		}
		for _, doc := range docsOf(f.syntax) {
			if words := promise.FindString(doc.Text()); words != "" {
				breaches = append(breaches, f.at(doc, "%q is a promise: say what is", words))
			}
		}
	}
	return breaches
}

// docsOf returns the comments that go doc shows: on the package and on what it exports.
func docsOf(f *ast.File) (docs []*ast.CommentGroup) {
	add := func(doc *ast.CommentGroup, names ...*ast.Ident) {
		if doc != nil && slices.ContainsFunc(names, (*ast.Ident).IsExported) {
			docs = append(docs, doc)
		}
	}
	if f.Doc != nil {
		docs = append(docs, f.Doc)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			add(n.Doc, n.Name)
			return false
		case *ast.GenDecl:
			for _, spec := range n.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					add(n.Doc, spec.Name)
					add(spec.Doc, spec.Name)
				case *ast.ValueSpec:
					add(n.Doc, spec.Names...)
					add(spec.Doc, spec.Names...)
				}
			}
		case *ast.Field:
			add(n.Doc, n.Names...)
			add(n.Comment, n.Names...)
		}
		return true
	})
	return docs
}

// link matches what a page links to, up to a space or the title.
var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// reference is a link of a page to another file of ours, or to a heading of one.
type reference struct {
	line            int
	target, heading string
}

// linksOf returns the links of a page.
func linksOf(f file) (found []reference) {
	fenced := false
	for i, line := range strings.Split(f.text, "\n") {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		for _, to := range link.FindAllStringSubmatch(line, -1) {
			if fenced || strings.Contains(to[1], "://") {
				continue
			}
			r := reference{line: i + 1, target: f.path}
			name, heading, _ := strings.Cut(to[1], "#")
			if r.heading = heading; name != "" {
				r.target = path.Join(f.dir(), name)
			}
			found = append(found, r)
		}
	}
	return found
}

func linksLead(files []file) (breaches []string) {
	headings := map[string]map[string]bool{".": nil} // by path of a file or folder
	for _, f := range files {
		for name := f.path; name != "."; name = path.Dir(name) {
			if headings[name] == nil {
				headings[name] = headingsOf(f, name)
			}
		}
	}
	for _, f := range files {
		if path.Ext(f.path) != ".md" {
			continue
		}
		for _, r := range linksOf(f) {
			found, ok := headings[r.target]
			switch isText := path.Ext(r.target) != ".png"; {
			case !ok && isText:
				breaches = append(breaches, fmt.Sprintf("%s:%d: links to %s, which does not exist", f.path, r.line, r.target))
			case r.heading != "" && !found[r.heading]:
				breaches = append(breaches, fmt.Sprintf("%s:%d: links to %s#%s: no such heading", f.path, r.line, r.target, r.heading))
			}
		}
	}
	return breaches
}

// headingsOf returns the anchors of a page, those that GitHub gives to its headings among them, if the file is that page.
func headingsOf(f file, name string) map[string]bool {
	anchors := map[string]bool{}
	if f.path != name || path.Ext(name) != ".md" {
		return anchors
	}
	for line := range strings.Lines(f.text) {
		if _, id, ok := strings.Cut(line, `<a id="`); ok {
			id, _, _ = strings.Cut(id, `"`)
			anchors[id] = true
		}
		marks, title, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || strings.Trim(marks, "#") != "" || marks == "" {
			continue
		}
		anchors[strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r) || unicode.IsNumber(r) || r == '-' || r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, title)] = true
	}
	return anchors
}

// index lists all pages of docs. One in a folder counts if the index links to the folder.
const index = "docs/README.md"

func indexListsPages(files []file) (breaches []string) {
	listed := map[string]bool{index: true}
	for _, f := range files {
		if f.path == index {
			for _, r := range linksOf(f) {
				listed[r.target] = true
			}
		}
	}
	for _, f := range files {
		if within(f.dir(), "docs") && path.Ext(f.path) == ".md" && !listed[f.path] && !listed[f.dir()] {
			breaches = append(breaches, fmt.Sprintf("%s: %s does not list it", f.path, index))
		}
	}
	return breaches
}
