package topologies

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
)

var (
	variableName   = regexp.MustCompile(`^[_a-zA-Z][_a-zA-Z0-9]*`)
	hasReplacement = regexp.MustCompile(`^:?[-+]`)
)

// checkVariables refuses every variable that has no default. A topology means
// the same on every machine, so no variable is ever set; compose-go would put
// in an empty text and say so on a log alone.
func (d *document) checkVariables() *FileError {
	var found *FileError
	ast.Walk(visitor(func(n ast.Node) {
		s, ok := d.value("", n, n).text()
		if !ok || found != nil {
			return
		}
		if expr, problem, hint := unsetVariable(s); problem != "" {
			line, column := d.locate(n, expr)
			found = NewFileError(d.file, d.src, line, column, problem, hint)
		}
	}), d.root)
	return found
}

// unsetVariable gives the first variable in s that has no value, as written.
func unsetVariable(s string) (expr, problem, hint string) {
	for {
		i := strings.IndexByte(s, '$')
		if i < 0 || i == len(s)-1 {
			return "", "", ""
		}
		s = s[i:]
		switch {
		case s[1] == '$':
			s = s[2:]
		case s[1] == '{':
			end := closingBrace(s)
			name := variableName.FindString(s[2:])
			if end < 0 || name == "" {
				return "${", "this is not a variable", "write $${ for a dollar sign that Compose leaves alone"
			}
			expr, rest := s[:end+1], s[2+len(name):end]
			if !hasReplacement.MatchString(rest) {
				return expr, fmt.Sprintf("variable %s is not set", name),
					fmt.Sprintf("nothing is taken from the shell or a .env file: write the value, a default ${%s:-value}, or $$ for a dollar sign", name)
			}
			if expr, problem, hint := unsetVariable(strings.TrimLeft(rest, ":-+")); problem != "" {
				return expr, problem, hint
			}
			s = s[end+1:]
		default:
			if name := variableName.FindString(s[1:]); name != "" {
				return "$" + name, fmt.Sprintf("variable %s is not set", name),
					fmt.Sprintf("nothing is taken from the shell or a .env file: write the value, a default ${%s:-value}, or $$%s for a dollar sign", name, name)
			}
			s = s[1:]
		}
	}
}

// closingBrace finds the end of the variable that s begins with.
func closingBrace(s string) int {
	depth := 0
	for i := range len(s) {
		switch s[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// locate finds where a piece of a scalar's text stands in the file, which for a
// block of text is some lines below where the scalar begins.
func (d *document) locate(n ast.Node, piece string) (line, column int) {
	line, column = position(n)
	if line == 0 {
		return line, column
	}
	for i, text := range strings.Split(string(d.src), "\n")[line-1:] {
		from := 0
		if i == 0 {
			from = len(string([]rune(text)[:min(column-1, utf8.RuneCountInString(text))]))
		}
		if at := strings.Index(text[from:], piece); at >= 0 {
			return line + i, utf8.RuneCountInString(text[:from+at]) + 1
		}
	}
	return line, column
}
