package experiment

import (
	"bytes"
	_ "embed"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"path/filepath"
	"strings"
	"time"
)

// Keep writes a finding's files into a directory: NAME.json with everything,
// NAME.csv with its first table and NAME-TABLE.csv with the others, NAME.svg.
// A finding that was skipped replaces none that was not.
func (f *Finding) Keep(dir string) error {
	if before, err := kept(dir, f.Name); f.Skipped != "" && err == nil && before.Skipped == "" {
		return nil
	}
	whole, err := json.MarshalIndent(f, "", " ")
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(dir, f.Name+".json"), whole); err != nil {
		return err
	}
	for _, t := range f.Tables {
		var out bytes.Buffer
		if err := csv.NewWriter(&out).WriteAll(append([][]string{t.Columns}, t.Rows...)); err != nil {
			return err
		}
		if err := writeFile(filepath.Join(dir, f.file(t)), out.Bytes()); err != nil {
			return err
		}
	}
	if f.Chart == nil {
		return nil
	}
	picture, err := f.picture()
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, f.Name+".svg"), []byte(picture))
}

// file is the name of a table's file.
func (f *Finding) file(t *Table) string {
	if t.Name == "" {
		return f.Name + ".csv"
	}
	return f.Name + "-" + t.Name + ".csv"
}

func (f *Finding) picture() (string, error) {
	var out strings.Builder
	err := f.Chart.Write(&out)
	return out.String(), err
}

// Report writes report.md and report.html over all findings that were kept in a
// directory, in the order of the papers.
func Report(dir string) error {
	var findings []*Finding
	for _, e := range All() {
		f, err := kept(dir, e.Name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		findings = append(findings, f)
	}
	if err := writeFile(filepath.Join(dir, "report.md"), markdown(findings)); err != nil {
		return err
	}
	page, err := webpage(findings)
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, "report.html"), page)
}

func kept(dir, name string) (*Finding, error) {
	path := filepath.Join(dir, name+".json")
	whole, err := readFile(path)
	if err != nil {
		return nil, err
	}
	f := new(Finding)
	err = json.Unmarshal(whole, f)
	switch {
	case err != nil:
	case f.Name != name:
		err = fmt.Errorf("it is not about %s", name)
	case f.Chart != nil:
		err = f.Chart.Check()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w; allowed: what an earlier run left, or nothing", path, err)
	}
	return f, nil
}

// shownRows is how many rows a table may have to be shown in the report.
const shownRows = 40

// markdown is the report as a text.
func markdown(findings []*Finding) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "# The papers' results, reproduced\n\nMade by `coppice reproduce`. «agrees» means within what the last column says, or the shape described.\n\n")
	fmt.Fprintf(&out, "| experiment | source | verdict | claims |\n|---|---|---|---|\n")
	for _, f := range findings {
		fmt.Fprintf(&out, "| [%s](#%s) | %s | %s | %s |\n", f.Title, f.Name, f.Source, f.Verdict(), f.score())
	}
	for _, f := range findings {
		fmt.Fprintf(&out, "\n<a id=\"%s\"></a>\n\n## %s\n\n%s. %s\n\n", f.Name, f.Title, f.Source, f.About)
		if f.Chart != nil {
			fmt.Fprintf(&out, "![%s](%s.svg)\n\n", f.Title, f.Name)
		}
		if f.Skipped != "" {
			fmt.Fprintf(&out, "Skipped: %s. Repeat: `%s`.\n", f.Skipped, f.Repeat())
			continue
		}
		claims := Table{Columns: []string{"what", "paper", "ours", "verdict", "why"}}
		for _, c := range f.Claims {
			claims.Add(c.What, c.Paper, c.Ours, c.Verdict, c.Reason)
		}
		claims.markdown(&out)
		for _, t := range f.Tables {
			if len(t.Rows) <= shownRows {
				fmt.Fprintln(&out)
				t.markdown(&out)
			}
		}
		for _, n := range f.Notes {
			fmt.Fprintf(&out, "\n%s\n", n)
		}
		files := each(f.Tables, func(t *Table) string { return fmt.Sprintf("[%s](%[1]s)", f.file(t)) })
		fmt.Fprintf(&out, "\nFiles: %s. %s in %s. Repeat: `%s`.\n", strings.Join(files, ", "), f.How(), f.Took(), f.Repeat())
	}
	return out.Bytes()
}

func (t *Table) markdown(out *bytes.Buffer) {
	line := func(cells []string) {
		escaped := each(cells, func(c string) string { return strings.ReplaceAll(c, "|", `\|`) })
		fmt.Fprintf(out, "| %s |\n", strings.Join(escaped, " | "))
	}
	line(t.Columns)
	fmt.Fprintf(out, "|%s\n", strings.Repeat("---|", len(t.Columns)))
	for _, row := range t.Rows {
		line(row)
	}
}

// score counts the claims by verdict.
func (f *Finding) score() string {
	count := map[Verdict]int{}
	for _, c := range f.Claims {
		count[c.Verdict]++
	}
	var parts []string
	for _, v := range []Verdict{Equal, Agrees, Differs} {
		if count[v] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", count[v], v))
		}
	}
	return strings.Join(parts, ", ")
}

// How says how it was made.
func (f *Finding) How() string {
	if f.Measured {
		return "Measured"
	}
	return "Simulated"
}

// Took is how long the simulations or launches took.
func (f *Finding) Took() string {
	return time.Duration(f.Seconds * float64(time.Second)).Round(100 * time.Millisecond).String()
}

//go:embed report.html.tmpl
var pageText string

var page = template.Must(template.New("report").Parse(pageText))

// webpage is the report as one self-contained page.
func webpage(findings []*Finding) ([]byte, error) {
	type entry struct {
		*Finding
		Picture template.HTML
		Score   string
		Shown   []*Table
	}
	var entries []entry
	for _, f := range findings {
		e := entry{Finding: f, Score: f.score()}
		if f.Chart != nil {
			picture, err := f.picture()
			if err != nil {
				return nil, err
			}
			e.Picture = template.HTML(picture) // our own drawing, its texts escaped
		}
		for _, t := range f.Tables {
			if len(t.Rows) <= shownRows {
				e.Shown = append(e.Shown, t)
			}
		}
		entries = append(entries, e)
	}
	var out bytes.Buffer
	err := page.Execute(&out, entries)
	return out.Bytes(), err
}
