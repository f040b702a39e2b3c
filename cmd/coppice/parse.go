package main

import (
	"embed"
	"encoding"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// parse reads the command line. All its errors are about the input.
func parse(parser *kong.Kong, args []string) (*kong.Context, error) {
	args = oneWord(parser.Model, args)
	command := find(parser.Model, args[0])
	ctx, err := parser.Parse(joinValues(withValues(eitherLetter(command, args))))
	if err != nil {
		return nil, badInput{explain(err, parser, command, args)}
	}
	if err := outOfBounds(ctx.Flags()); err != nil {
		return nil, badInput{err}
	}
	return ctx, nil
}

// outOfBounds says which number a flag does not allow. The tag bounds of a flag is what is to be said then, and so has the bounds:
// "%d rounds; allowed: 1 to 1000", "%d runs; allowed: 1 or more", "%d workers; allowed: 1 or more, or 0 for all cores", "grace of %v; allowed: a duration above 0, such as 30s".
func outOfBounds(flags []*kong.Flag) error {
	for _, f := range flags {
		text := f.Tag.Get("bounds")
		values := reflect.Indirect(f.Target)
		if text == "" || !values.IsValid() { // not given
			continue
		}
		if values.Kind() != reflect.Slice {
			values = reflect.Append(reflect.MakeSlice(reflect.SliceOf(values.Type()), 0, 1), values)
		}
		_, allowed, _ := strings.Cut(text, "; allowed: ")
		least, most := int64(0), int64(math.MaxInt64)
		_, _ = fmt.Sscanf(allowed, "%d to %d", &least, &most) // there may be no upper bound
		if strings.HasPrefix(allowed, "a duration above 0") {
			least = 1
		}
		for i := range values.Len() {
			n := values.Index(i).Int()
			if (n < least || n > most) && !(n == 0 && strings.Contains(allowed, ", or 0 for ")) {
				return fmt.Errorf(text, values.Index(i).Interface())
			}
		}
	}
	return nil
}

// find is the command of a name; nil: there is none.
func find(app *kong.Application, name string) *kong.Command {
	for _, command := range app.Children {
		if command.Name == name {
			return command
		}
	}
	return nil
}

// oneWord makes one argument of the two words of a command such as bench membership, whose name has a space in it.
func oneWord(app *kong.Application, args []string) []string {
	if len(args) > 1 {
		if two := args[0] + " " + args[1]; find(app, two) != nil {
			return append([]string{two}, args[2:]...)
		}
	}
	return args
}

// explain says what kong found wrong, what it takes to be meant, and where to see what is allowed.
func explain(err error, parser *kong.Kong, command *kong.Command, args []string) error {
	text := missingValue.ReplaceAllString(err.Error(), "$1: missing value")
	text = closest(explainValue(text, command))
	see := "see coppice --help"
	switch {
	case command != nil:
		see = "see coppice " + command.Name + " --help"
		if len(args) > 1 && strings.HasPrefix(text, "unexpected argument") && !strings.Contains(text, meant) {
			if two := suggestion(parser, command.Name+" "+args[1]); strings.Contains(two, `"`+command.Name+" ") {
				text += two
			}
		}
	case !strings.HasPrefix(args[0], "-"):
		text = closest(fmt.Sprintf("unknown command %q%s", args[0], suggestion(parser, args[0])))
		if !strings.Contains(text, meant) {
			text += "; allowed: " + strings.Join(each(called(parser.Model), func(c *kong.Command) string { return c.Name }), ", ")
		}
	}
	if strings.HasSuffix(text, "?") {
		return fmt.Errorf("%s %s", text, strings.ToUpper(see[:1])+see[1:])
	}
	return fmt.Errorf("%s; %s", text, see)
}

// called are the commands that people call.
func called(app *kong.Application) []*kong.Command {
	return slices.DeleteFunc(slices.Clone(app.Children), func(c *kong.Command) bool { return c.Hidden })
}

// meant begins kong's suggestion of what is like the word it does not know.
const meant = ", did you mean "

// suggestion is what kong suggests for the name of a command.
func suggestion(parser *kong.Kong, name string) string {
	if _, err := parser.Parse([]string{name}); err != nil {
		if _, names, ok := strings.Cut(err.Error(), meant); ok {
			return meant + names
		}
	}
	return ""
}

// missingValue matches kong's words for a flag at the end, or before another.
var missingValue = regexp.MustCompile(`(--\S+): (expected \S+ value but got "(EOL|-)|missing value).*`)

// badValue matches kong's words for a value that a flag cannot have: the flag, what kong expected, the value.
var badValue = regexp.MustCompile(`^(--\S+): expected (?:a valid (\d+) bit )?(u?int|a float|duration) but got ("(?:[^"\\]|\\.)*")`)

// explainValue says which values a flag takes, if kong refused one.
func explainValue(text string, command *kong.Command) string {
	match := badValue.FindStringSubmatch(text)
	if match == nil {
		return text
	}
	flag, bits, kind, value := match[1], match[2], match[3], match[4]
	allowed := map[string]string{
		"int": "a whole number", "uint": "a whole number, 0 or more", "a float": "a number", "duration": "a duration, such as 30s or 5m",
	}[kind]
	if wholeNumber.MatchString(value) && kind == "int" {
		allowed += " of " + bits + " bits"
	}
	if command != nil {
		for _, f := range command.Flags {
			if "--"+f.Name == flag && f.Short != 0 {
				flag += fmt.Sprintf(" (-%c)", f.Short)
			}
		}
	}
	return fmt.Sprintf("%s: %s; allowed: %s", flag, value, allowed)
}

var wholeNumber = regexp.MustCompile(`^"[-+]?[0-9]+"$`)

// suggested matches the word that kong does not know, and the words that it suggests.
var suggested = regexp.MustCompile(`^(unknown flag|unknown command|unexpected argument) (\S+)` + meant + `(?:one of )?(.*)\?$`)

// closest keeps, of what kong suggests, the words that share most of their beginning with the one it does not know.
func closest(text string) string {
	match := suggested.FindStringSubmatch(text)
	if match == nil {
		return text
	}
	word, all := strings.Trim(match[2], `"`), strings.Split(match[3], ", ")
	shared := func(candidate string) (n int) {
		candidate = strings.Trim(candidate, `"`)
		for n < min(len(word), len(candidate)) && word[n] == candidate[n] {
			n++
		}
		return n
	}
	most := shared(slices.MaxFunc(all, func(a, b string) int { return shared(a) - shared(b) }))
	all = slices.DeleteFunc(all, func(candidate string) bool { return shared(candidate) < most })
	if len(all) > 1 {
		all[0] = "one of " + all[0]
	}
	return match[1] + " " + match[2] + meant + strings.Join(all, ", ") + "?"
}

// flagsOf are the flags of a command, with their values.
func flagsOf(command any) []*kong.Flag {
	parser, err := kong.New(command, words, directories)
	if err != nil {
		panic(err) // it has been parsed
	}
	return parser.Model.Flags
}

// usual reports whether a flag has its default.
func usual(f *kong.Flag) bool {
	if f.HasDefault {
		return fmt.Sprint(f.Target.Interface()) == f.Default
	}
	return f.Target.IsZero()
}

// flagName is how people write a flag.
func flagName(f *kong.Flag) string {
	if f.Short != 0 {
		return "-" + string(f.Short)
	}
	return "--" + f.Name
}

// changed is the first of some flags of a command that does not have its default, as people write it; "": all have it.
func changed(command any, flags ...string) string {
	all := flagsOf(command)
	for _, name := range flags {
		f := all[slices.IndexFunc(all, func(f *kong.Flag) bool { return f.Name == name })]
		switch {
		case usual(f):
		case string(f.Short) == name:
			return "-" + name
		default:
			return "--" + name
		}
	}
	return ""
}

// repeated are the flags of a command that do not have their defaults, and some others, as words of a command line.
// always names those others.
func repeated(command any, always ...string) (words []string) {
	for _, f := range flagsOf(command) {
		name, value := flagName(f), reflect.Indirect(f.Target)
		switch {
		case usual(f) && !slices.Contains(always, f.Name) || !value.IsValid():
		case value.Kind() == reflect.Bool && value.Bool():
			words = append(words, name)
		case value.Kind() == reflect.Bool:
			words = append(words, name+"=false")
		case value.Kind() != reflect.Slice:
			words = append(words, name, flagText(value))
		default:
			var texts []string
			for i := range value.Len() {
				texts = append(texts, flagText(value.Index(i)))
			}
			if f.Tag.Sep >= 0 {
				texts = []string{strings.Join(texts, string(f.Tag.Sep))}
			}
			for _, text := range texts {
				words = append(words, name, text)
			}
		}
	}
	return words
}

// flagText is one value of a flag, as it is written.
func flagText(value reflect.Value) string {
	if m, ok := value.Interface().(encoding.TextMarshaler); ok {
		text, _ := m.MarshalText() // it was read from a text
		return string(text)
	}
	return fmt.Sprint(value.Interface())
}

// eitherLetter lets people write -P for -n, or -n for -P, where a command has but one of them: processes are -n where
// they are started, -P where they are simulated.
func eitherLetter(command *kong.Command, args []string) []string {
	if command == nil {
		return args
	}
	has := map[rune]bool{}
	for _, flag := range command.Flags {
		has[flag.Short] = true
	}
	from, to := "-P", "-n"
	if has['P'] {
		from, to = to, from
	}
	if has['n'] == has['P'] {
		return args
	}
	var written []string
	for i, arg := range args {
		if arg == "--" {
			return append(written, args[i:]...)
		}
		if rest, ok := strings.CutPrefix(arg, from); ok {
			arg = to + rest
		}
		written = append(written, arg)
	}
	return written
}

// helpTexts has a file for each command of which its flags do not say all.
//
//go:embed help
var helpTexts embed.FS

// help prints the help of a command, or of all. One that starts a program shows where its name goes.
func help(options kong.HelpOptions, ctx *kong.Context) error {
	command := ctx.Selected()
	if command == nil {
		return kong.DefaultHelpPrinter(options, ctx)
	}
	text, _ := helpTexts.ReadFile("help/" + strings.ReplaceAll(command.Name, " ", "-") + ".txt")
	command.Detail = strings.ReplaceAll(string(text), "${promised}", strings.Join(promised, ", "))
	if len(command.Positional) > 0 {
		if program := command.Positional[0].Tag.PlaceHolder; program != "" {
			options.NoAppSummary = true
			if _, err := fmt.Fprintf(ctx.Stdout, "Usage: coppice %s [flags] %s\n", command.Name, program); err != nil {
				return err
			}
		}
	}
	return kong.DefaultHelpPrinter(options, ctx)
}

type helpCmd struct {
	Command []string `arg:"" optional:"" help:"The command, such as run or bench membership."`
}

func (h *helpCmd) Run(parser *kong.Kong) error {
	args := append(oneWord(parser.Model, h.Command), "--help")
	_, err := parse(parser, args) // which prints it and exits
	return err
}
