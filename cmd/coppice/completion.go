package main

import (
	"bufio"
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

func (completionCmd) Help() string {
	return `
The script is made of the command's own tables of commands and flags.

	source <(coppice completion bash)                                   # in ~/.bashrc
	coppice completion zsh > ~/.zfunc/_coppice                          # in a directory of $fpath
	coppice completion fish > ~/.config/fish/completions/coppice.fish
`
}

func (s *completionCmd) Run(c *console, parser *kong.Kong) error {
	write := map[string]func(*bufio.Writer, []*kong.Command){"bash": completeBash, "zsh": completeZsh, "fish": completeFish}[s.Shell]
	return c.print(func(w *bufio.Writer) { write(w, called(parser.Model)) })
}

// flagsOf are the flags of a command that people use, those of all commands among them.
func flagsOf(command *kong.Command) []*kong.Flag { return slices.Concat(command.AllFlags(true)...) }

// spellings are how a flag can be written.
func spellings(flag *kong.Flag) []string {
	all := []string{"--" + flag.Name}
	if flag.Short != 0 {
		all = append(all, "-"+string(flag.Short))
	}
	return all
}

// seconds are the second words of the commands that begin with a name, such as membership after bench.
func seconds(commands []*kong.Command, name string) (words []string) {
	for _, command := range commands {
		if second, ok := strings.CutPrefix(command.Name, name+" "); ok {
			words = append(words, second)
		}
	}
	return words
}

// firsts are the first words of the commands.
func firsts(commands []*kong.Command) (words []string) {
	for _, command := range commands {
		if !strings.Contains(command.Name, " ") {
			words = append(words, command.Name)
		}
	}
	return words
}

// values are those that the first argument of a command can have, if there are only so many.
func values(commands []*kong.Command, command *kong.Command) []string {
	if command.Name == "help" {
		return firsts(commands)
	}
	for _, argument := range command.Positional {
		return argument.EnumSlice()
	}
	return nil
}

func completeBash(w *bufio.Writer, commands []*kong.Command) {
	fmt.Fprintf(w, `# bash completion of coppice, by coppice completion bash

_coppice() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} at="${COMP_WORDS[1]} ${COMP_WORDS[2]}" words= word
	COMPREPLY=()
	for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
		if [[ $word == -- ]]; then # a program, and its files
			compopt -o default
			((${#COMP_WORDS[@]} > 2)) && [[ $prev == -- ]] && COMPREPLY=($(compgen -c -- "$cur"))
			return
		fi
	done
	if [[ $cur == = ]]; then # --flag=value are three words
		cur=
	elif [[ $prev == = ]]; then
		prev=${COMP_WORDS[COMP_CWORD-2]}
	fi
	if ((COMP_CWORD == 1)); then
		COMPREPLY=($(compgen -W %s -- "$cur"))
		return
	fi
	if ((COMP_CWORD == 2)); then
		at=${COMP_WORDS[1]}
	fi
	case $at in
`, quoted(append(firsts(commands), "--help", "--version")))
	// Commands of two words come first: what is left is their first word, with anything after it.
	for _, two := range []bool{true, false} {
		for _, command := range commands {
			if strings.Contains(command.Name, " ") != two {
				continue
			}
			pattern := quoted([]string{command.Name}) + "*"
			if !two {
				pattern = command.Name + "|" + quoted([]string{command.Name + " "}) + "*"
			}
			fmt.Fprintf(w, "\t%s)\n\t\tcase $prev in\n", pattern)
			var words []string
			for _, flag := range flagsOf(command) {
				words = append(words, "--"+flag.Name)
				switch all := strings.Join(spellings(flag), "|"); {
				case flag.IsBool():
				case flag.Enum != "":
					fmt.Fprintf(w, "\t\t%s) COMPREPLY=($(compgen -W %s -- \"$cur\")); return ;;\n", all, quoted(flag.EnumSlice()))
				default:
					fmt.Fprintf(w, "\t\t%s) return ;;\n", all)
				}
			}
			fmt.Fprintf(w, "\t\tesac\n\t\twords=%s\n", quoted(words))
			if first := append(seconds(commands, command.Name), values(commands, command)...); len(first) > 0 {
				fmt.Fprintf(w, "\t\t((COMP_CWORD == 2)) && words=%s\" $words\"\n", quoted(first))
			}
			fmt.Fprint(w, "\t\t;;\n")
		}
	}
	fmt.Fprint(w, `	esac
	COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -o bashdefault -o default -F _coppice coppice
`)
}

func completeZsh(w *bufio.Writer, commands []*kong.Command) {
	fmt.Fprint(w, `#compdef coppice
# zsh completion of coppice, by coppice completion zsh

_coppice() {
	local -a commands seconds
	if ((CURRENT == 2)); then
		commands=(
`)
	for _, command := range commands {
		if !strings.Contains(command.Name, " ") {
			fmt.Fprintf(w, "\t\t\t%s\n", quoted([]string{command.Name + ":" + summary(command.Help)}))
		}
	}
	fmt.Fprint(w, `		)
		_describe command commands
		_arguments '--help[Show help.]' '--version[Print the version.]'
		return
	fi
	local command=$words[2]
	case "$words[2] $words[3]" in
`)
	for _, command := range commands {
		if strings.Contains(command.Name, " ") {
			fmt.Fprintf(w, "\t%s) ((CURRENT > 3)) && command=%[1]s ;;\n", quoted([]string{command.Name}))
		}
	}
	fmt.Fprint(w, `	esac
	shift words
	((CURRENT--))
	if [[ $command == *' '* ]]; then
		shift words
		((CURRENT--))
	fi
	case $command in
`)
	for _, command := range commands {
		fmt.Fprintf(w, "\t%s)\n", quoted([]string{command.Name}))
		if more := seconds(commands, command.Name); len(more) > 0 {
			fmt.Fprintf(w, "\t\t((CURRENT == 2)) && compadd %s\n", strings.Join(more, " "))
		}
		fmt.Fprint(w, "\t\t_arguments -s")
		for _, flag := range flagsOf(command) {
			for _, spelling := range spellings(flag) {
				fmt.Fprintf(w, " \\\n\t\t\t%s", quoted([]string{zshFlag(flag, spelling)}))
			}
		}
		switch all := values(commands, command); {
		case len(all) > 0:
			fmt.Fprintf(w, " \\\n\t\t\t%s", quoted([]string{"1:" + command.Positional[0].Name + ":(" + strings.Join(all, " ") + ")"}))
		case len(command.Positional) > 0 && command.Positional[0].Tag.PlaceHolder != "":
			fmt.Fprint(w, " \\\n\t\t\t'*::program:_normal'")
		}
		fmt.Fprint(w, "\n\t\t;;\n")
	}
	fmt.Fprint(w, `	esac
}

if [[ $funcstack[1] == _coppice ]]; then
	_coppice "$@"
else
	compdef _coppice coppice
fi
`)
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

func completeFish(w *bufio.Writer, commands []*kong.Command) {
	var two []string
	for _, command := range commands {
		if strings.Contains(command.Name, " ") {
			two = append(two, quoted([]string{command.Name}))
		}
	}
	fmt.Fprintf(w, `# fish completion of coppice, by coppice completion fish

# __coppice_at reports whether the command line is that of a command, which may have two words.
function __coppice_at
	set -l words (commandline -opc)
	set -e words[1]
	contains -- -- $words; and return 1
	set -l command "$words[1]"
	if contains -- "$words[1] $words[2]" %s
		set command "$words[1] $words[2]"
	end
	test "$command" = "$argv[1]"
end

complete -c coppice -n '__coppice_at ""' -l version -d 'Print the version.'
`, strings.Join(two, " "))
	for _, command := range commands {
		first, second, two := strings.Cut(command.Name, " ")
		word, at := first, ""
		if two {
			word, at = second, first
		}
		fmt.Fprintf(w, "complete -c coppice -f -n '__coppice_at \"%s\"' -a %s -d %s\n", at, word, quoted([]string{summary(command.Help)}))
		when := fmt.Sprintf("'__coppice_at \"%s\"'", command.Name)
		if all := values(commands, command); len(all) > 0 {
			fmt.Fprintf(w, "complete -c coppice -f -n %s -a %s\n", when, quoted(all))
		}
		for _, flag := range flagsOf(command) {
			fmt.Fprintf(w, "complete -c coppice -n %s -l %s", when, flag.Name)
			if flag.Short != 0 {
				fmt.Fprintf(w, " -s %c", flag.Short)
			}
			switch {
			case flag.IsBool():
			case flag.Enum != "":
				fmt.Fprintf(w, " -x -a %s", quoted(flag.EnumSlice()))
			default:
				fmt.Fprint(w, " -r")
			}
			fmt.Fprintf(w, " -d %s\n", quoted([]string{summary(flag.Help)}))
		}
	}
}

// summary is the first sentence of a text.
func summary(text string) string {
	text = strings.ReplaceAll(text, "\n", " ")
	if sentence, _, more := strings.Cut(text, ". "); more {
		return sentence + "."
	}
	return text
}

// quoted are words as one word of a shell. In fish a backslash before a quote has the same meaning outside of quotes.
func quoted(words []string) string {
	words = slices.DeleteFunc(words, func(word string) bool { return word == "" })
	return "'" + strings.ReplaceAll(strings.Join(words, " "), "'", `'\''`) + "'"
}
