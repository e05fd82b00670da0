package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/alecthomas/kong"
)

// manCommand prints the manual page, in the language of man(7). It is made of the help of
// commands and flags, so that the two never differ.
type manCommand struct{}

func (manCommand) Run(k *kong.Kong, out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH FEDPOST 1 \"\" \"fedpost %s\" \"User Commands\"\n", roff(release()))
	fmt.Fprintf(&b, ".SH NAME\nfedpost \\- a delivery queue for federated servers\n")
	b.WriteString(".SH SYNOPSIS\n.B fedpost\n.I command\n.RI [ options ]\n")
	fmt.Fprintf(&b, ".SH DESCRIPTION\n%s\n", roff(k.Model.Help))
	b.WriteString("Settings are environment variables; /usr/share/doc/fedpost/docs/configuration.md lists them.\n")
	b.WriteString(".SH OPTIONS\nEvery command takes these.\n")
	manFlags(&b, k.Model.Flags)
	b.WriteString(".SH COMMANDS\n")
	manCommands(&b, k.Model.Node)
	b.WriteString(".SH EXIT STATUS\n0 after success, 1 after a failure, ")
	fmt.Fprintf(&b, "%d after a mistake on the command line.\n", usageExit)
	fmt.Fprintf(&b, ".B fedpost status \\-\\-wait\nends with %d if some recipients did not get the activity.\n", failedExit)
	_, err := io.WriteString(out, b.String())
	return err
}

// manCommands writes the commands below a node, each with its arguments and flags.
func manCommands(b *strings.Builder, at *kong.Node) {
	for _, n := range at.Children {
		if n.Hidden {
			continue
		}
		if len(n.Children) == 0 {
			fmt.Fprintf(b, ".SS \"%s\"\n%s\n", roff(n.Path()), roff(n.Help))
			if n.Detail != "" {
				fmt.Fprintf(b, ".PP\n%s\n", roff(n.Detail))
			}
			for _, p := range n.Positional {
				fmt.Fprintf(b, ".TP\n.I %s\n%s\n", roff(p.Summary()), roff(p.Help))
			}
			manFlags(b, ownFlags(n))
		}
		manCommands(b, n)
	}
}

// ownFlags are the flags of a command and of those above it, except the program's.
func ownFlags(n *kong.Node) (all []*kong.Flag) {
	for ; n.Parent != nil; n = n.Parent {
		all = append(all, n.Flags...)
	}
	return all
}

func manFlags(b *strings.Builder, flags []*kong.Flag) {
	for _, f := range flags {
		if f.Hidden {
			continue
		}
		fmt.Fprintf(b, ".TP\n.B %s\n%s", roff(f.String()), roff(f.Help))
		if len(f.Envs) > 0 {
			fmt.Fprintf(b, " Environment: %s.", roff(strings.Join(f.Envs, ", ")))
		}
		b.WriteString("\n")
	}
}

// roff escapes a text so that man(7) shows it unchanged: no request, no escape, hyphens that can be
// copied into a shell.
func roff(text string) string {
	text = strings.NewReplacer("\\", "\\e", "-", "\\-", "\"", "\\(dq", "'", "\\(aq").Replace(text)
	var ascii strings.Builder
	for _, r := range text {
		if r < utf8.RuneSelf {
			ascii.WriteRune(r)
		} else {
			fmt.Fprintf(&ascii, "\\[u%04X]", r)
		}
	}
	lines := strings.Split(ascii.String(), "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") {
			lines[i] = "\\&" + l
		}
	}
	return strings.Join(lines, "\n")
}
