// Command pictures draws the SVG pictures of README.md, each in light and dark: the flow from
// what is written here, and the demo from demo.out, which record.sh has recorded of a terminal.
//
// usage: go run ./docs/pictures     (in the root of the repository)
package main

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
)

//go:embed demo.out
var demo string

// palette is the colours of a picture.
type palette struct{ name, back, box, line, text, faint, good, bad, waits string }

var palettes = []palette{
	{"light", "#ffffff", "#f6f8fa", "#57606a", "#1f2328", "#57606a", "#1a7f37", "#cf222e", "#9a6700"},
	{"dark", "#0d1117", "#161b22", "#8b949e", "#e6edf3", "#8b949e", "#3fb950", "#f85149", "#d29922"},
}

// pictures are all files, by name.
func pictures() map[string]string {
	all := map[string]string{}
	for _, p := range palettes {
		all["flow-"+p.name+".svg"] = flow(p)
		all["demo-"+p.name+".svg"] = terminal(p, demo)
	}
	return all
}

func main() {
	for name, text := range pictures() {
		if err := os.WriteFile(filepath.Join("docs", "pictures", name), []byte(text), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, "pictures:", err)
			os.Exit(1)
		}
	}
}
