package main

import (
	"bufio"
	"embed"
	"errors"
	"slices"
	"strings"
	"text/template"

	"github.com/alecthomas/kong"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

//go:embed completion
var completionScripts embed.FS

func (s *completionCmd) Run(c *console, parser *kong.Kong) error {
	script, err := template.New(s.Shell+".tmpl").Funcs(template.FuncMap{
		"join": join, "quote": quote, "spelled": spelled, "spellings": spellings, "summary": summary, "zshFlag": zshFlag,
	}).ParseFS(completionScripts, "completion/"+s.Shell+".tmpl")
	if err != nil {
		return err
	}
	lost := c.print(func(w *bufio.Writer) { err = script.Execute(w, newCompletable(called(parser.Model))) })
	return errors.Join(err, lost)
}

// completable are the commands that people call.
type completable struct {
	All, Ones, Twos []completed // Ones and Twos: by the number of words
	Firsts          []string    // the first words
}

// completed is a command of which Word, the last of its name, is completed.
type completed struct {
	*kong.Command
	Within, Word string   // the first of two words, or ""
	Seconds      []string // words that may follow it in the name of a command, such as membership after bench
	Values       []string // of its first argument, if there are only so many
}

func newCompletable(commands []*kong.Command) (c completable) {
	for _, command := range commands {
		one := completed{Command: command, Word: command.Name}
		if first, second, two := strings.Cut(command.Name, " "); two {
			one.Within, one.Word = first, second
		} else {
			c.Firsts = append(c.Firsts, first)
		}
		c.All = append(c.All, one)
	}
	for i := range c.All {
		one := &c.All[i]
		for _, other := range c.All {
			if other.Within == one.Name {
				one.Seconds = append(one.Seconds, other.Word)
			}
		}
		if one.Name == "help" {
			one.Values = c.Firsts
		} else if len(one.Positional) > 0 {
			one.Values = one.Positional[0].EnumSlice()
		}
		if one.Within == "" {
			c.Ones = append(c.Ones, *one)
		} else {
			c.Twos = append(c.Twos, *one)
		}
	}
	return c
}

// Accepted are the flags that people use, those of all commands among them.
func (c completed) Accepted() []*kong.Flag { return slices.Concat(c.AllFlags(true)...) }

// Longs are the flags as they are written in full.
func (c completed) Longs() []string {
	return each(c.Accepted(), func(flag *kong.Flag) string { return "--" + flag.Name })
}

// ValueName is the name of the first argument.
func (c completed) ValueName() string { return c.Positional[0].Name }

// StartsProgram reports whether a program follows the flags.
func (c completed) StartsProgram() bool {
	return len(c.Positional) > 0 && c.Positional[0].Tag.PlaceHolder != ""
}

// spellings are how a flag can be written.
func spellings(flag *kong.Flag) []string {
	all := []string{"--" + flag.Name}
	if flag.Short != 0 {
		all = append(all, "-"+string(flag.Short))
	}
	return all
}

func spelled(flag *kong.Flag, separator string) string {
	return strings.Join(spellings(flag), separator)
}

// zshFlag describes a flag as _arguments takes it.
func zshFlag(flag *kong.Flag, spelling string) string {
	text := spelling
	if !flag.IsBool() && strings.HasPrefix(spelling, "--") {
		text += "="
	}
	text += "[" + strings.NewReplacer("[", `\[`, "]", `\]`).Replace(summary(flag.Help)) + "]"
	if flag.IsCumulative() {
		text = "*" + text
	}
	switch {
	case flag.IsBool():
		return text
	case flag.Enum != "":
		return text + ":value:(" + strings.Join(flag.EnumSlice(), " ") + ")"
	}
	return text + ":value:_files"
}

// summary is the first sentence of a text.
func summary(text string) string {
	text = strings.ReplaceAll(text, "\n", " ")
	if sentence, _, more := strings.Cut(text, ". "); more {
		return sentence + "."
	}
	return text
}

// join writes words with spaces between them; empty ones are left out.
func join(lists ...[]string) string {
	return strings.Join(slices.DeleteFunc(slices.Concat(lists...), func(word string) bool { return word == "" }), " ")
}

// quote makes one word of a shell of words. In fish a backslash before a quote has the same meaning outside of quotes.
func quote(words ...string) string {
	return "'" + strings.ReplaceAll(strings.Join(words, " "), "'", `'\''`) + "'"
}
