package main

import (
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// completionCommand prints the script that makes a shell complete commands of fedpost. The script calls
// the program.
type completionCommand struct {
	Shell string `arg:"" help:"bash, zsh or fish. For bash: source <(fedpost completion bash)" enum:"bash,zsh,fish"`
}

var (
	//go:embed completion/fedpost.bash
	bashScript string
	//go:embed completion/fedpost.zsh
	zshScript string
	//go:embed completion/fedpost.fish
	fishScript string
)

// Run prints the script. It goes to other programs, so control characters stay.
func (c completionCommand) Run(out io.Writer) error {
	script := map[string]string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}[c.Shell]
	s, _ := out.(screen)
	_, err := io.WriteString(s.under(out), script)
	return err
}

// completeCommand is what the scripts call.
type completeCommand struct {
	Words []string `arg:"" optional:"" passthrough:""`
}

// Run prints the completions of the last word, one a line, each with its help after a tab.
func (c completeCommand) Run(k *kong.Kong, out io.Writer) error {
	words := c.Words
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	for _, w := range wordsAfter(k.Model.Node, words) {
		if _, err := fmt.Fprintf(out, "%s\t%s\n", w.text, w.help); err != nil {
			return err
		}
	}
	return nil
}

// candidate is a completion of a word.
type candidate struct{ text, help string }

// wordsAfter returns the completions of the last of words; none: it is a file's name or any text.
func wordsAfter(at *kong.Node, words []string) []candidate {
	if len(words) == 0 {
		return nil
	}
	before, last := words[:len(words)-1], words[len(words)-1]
	if last == "=" { // bash takes --flag=value for three words
		before, last = words, ""
	}
	var waiting *kong.Flag // takes the next word as its value
	arguments := 0
	for _, w := range before {
		switch {
		case w == "=" && waiting != nil:
		case waiting != nil:
			waiting = nil
		case strings.HasPrefix(w, "-"):
			waiting = flagOf(at, w)
		default:
			if i := slices.IndexFunc(at.Children, func(n *kong.Node) bool { return n.Type == kong.CommandNode && n.Name == w }); i >= 0 {
				at = at.Children[i]
			} else {
				arguments++
			}
		}
	}
	var all []candidate
	switch {
	case waiting != nil:
		all = choices(waiting.Value)
	case strings.HasPrefix(last, "-"):
		for _, level := range at.AllFlags(true) {
			for _, f := range level {
				all = append(all, candidate{"--" + f.Name, sentence(f.Help)})
			}
		}
	case arguments < len(at.Positional):
		all = choices(at.Positional[arguments])
	default:
		for _, n := range at.Children {
			if n.Type == kong.CommandNode && !n.Hidden {
				all = append(all, candidate{n.Name, sentence(n.Help)})
			}
		}
	}
	return slices.DeleteFunc(all, func(c candidate) bool { return !strings.HasPrefix(c.text, last) })
}

// flagOf is the flag that a word names if it takes the next word as its value.
func flagOf(at *kong.Node, word string) *kong.Flag {
	if strings.Contains(word, "=") {
		return nil
	}
	for _, level := range at.AllFlags(false) {
		for _, f := range level {
			if (word == "--"+f.Name || f.Short != 0 && word == "-"+string(f.Short)) && !f.IsBool() {
				return f
			}
		}
	}
	return nil
}

// choices are the values that a flag or an argument may have, if they are few.
func choices(v *kong.Value) []candidate {
	var all []candidate
	for _, text := range v.EnumSlice() {
		if text != "" {
			all = append(all, candidate{text: text})
		}
	}
	return all
}

// sentence is the first sentence of a help text.
func sentence(help string) string {
	first, _, _ := strings.Cut(plain(help), ". ")
	return strings.TrimSuffix(first, ".")
}
