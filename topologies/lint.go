package topologies

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

var (
	nginxResolver   = regexp.MustCompile(`(?m)^[^#\n]*?\b(resolver)[ \t]+[^;\n]+;`)
	nginxByVariable = regexp.MustCompile(`(?m)^[^#\n]*?\b(?:\w+_pass[ \t]+[^;\n]*\$|server[ \t]+[^;\n]*\bresolve\b)`)
	haproxyResolver = regexp.MustCompile(`(?m)^(resolvers)[ \t]+\S+[ \t]*(?:#.*)?$`)
)

// checkLinksUsed refuses a config that makes its program ask DNS: a link works by
// the client's hosts file, so the program would reach its server past the link,
// and a fault on the link would do nothing.
func checkLinksUsed(file string, src []byte, firstLine int, content []byte) error {
	at := nginxResolver.FindSubmatchIndex(content)
	if at == nil || !nginxByVariable.Match(content) {
		at = haproxyResolver.FindSubmatchIndex(content)
	}
	if at == nil {
		return nil
	}
	word := string(content[at[2]:at[3]])
	problem := fmt.Sprintf("%q makes the program ask DNS, past its links", word)
	hint := "name the server in an upstream or server line without it: the name is looked up once, in the hosts file that leads to the link"
	if firstLine == 0 {
		return NewFileError(file, src, 0, 0, problem, hint)
	}
	line := firstLine + strings.Count(string(content[:at[2]]), "\n")
	column := 1
	if lines := strings.Split(string(src), "\n"); line <= len(lines) {
		column = max(1, strings.Index(lines[line-1], word)+1)
	}
	return NewFileError(file, src, line, column, problem, hint)
}

// contentOf finds where a config's inline text stands: the file, its source and
// the line of the text's first line, 0 if that cannot be told.
func (ds documents) contentOf(config string) (file string, src []byte, firstLine int) {
	for _, d := range slices.Backward(ds) {
		v, ok := d.find([]string{"configs", config, "content"})
		if !ok {
			continue
		}
		if block, ok := v.node.(*ast.LiteralNode); ok {
			line, _ := position(block)
			return d.file, d.src, line + 1
		}
		return d.file, d.src, 0
	}
	return ds[0].file, ds[0].src, 0
}
