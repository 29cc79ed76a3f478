package topologies

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
)

// FileError is a mistake in a file that a person wrote: where it is, what is
// wrong, the line itself, and what would be right.
type FileError struct {
	File    string
	Line    int // from 1; 0 when the mistake is the file as a whole
	Column  int // from 1, in characters
	Problem string
	Hint    string // may be empty
	Excerpt string // the offending line, without its line break
}

// NewFileError gives the error for a place in src, and takes the offending line
// from there. Line and column count from 1; a line of 0 means the whole file.
func NewFileError(file string, src []byte, line, column int, problem, hint string) *FileError {
	e := &FileError{File: file, Line: max(line, 0), Column: max(column, 1), Problem: problem, Hint: hint}
	if lines := strings.Split(string(src), "\n"); line >= 1 && line <= len(lines) {
		e.Excerpt = strings.TrimSuffix(lines[line-1], "\r")
	}
	return e
}

// displayed has an error name its file for people. Until an error leaves the
// package, files are known by the path in fsys that they are read by.
func displayed(fsys fs.FS, err error) error {
	var file *FileError
	var overlay *UnknownOverlayError
	switch {
	case errors.As(err, &file):
		file.File = DisplayPath(fsys, file.File)
	case errors.As(err, &overlay):
		overlay.Dir = DisplayPath(fsys, overlay.Dir)
	}
	return err
}

// NodeError gives the error for a node of the parsed file.
func NodeError(file string, src []byte, node ast.Node, problem, hint string) *FileError {
	line, column := position(node)
	return NewFileError(file, src, line, column, problem, hint)
}

// YAMLError gives a parser's or decoder's error its place in the file. An error
// that has none, or nil, is given back as it is.
func YAMLError(file string, src []byte, err error) error {
	var at yaml.Error
	if !errors.As(err, &at) {
		return err
	}
	line, column := 0, 0
	if tok := at.GetToken(); tok != nil && tok.Position != nil {
		line, column = tok.Position.Line, tok.Position.Column
	}
	hint := ""
	if syntax := (*yaml.SyntaxError)(nil); errors.As(err, &syntax) {
		hint = "look at this line and the one before: indentation by spaces, a space behind each colon, quotes and brackets closed, each key once"
	}
	return NewFileError(file, src, line, column, at.GetMessage(), hint)
}

// Error gives the place and the problem on the first line, then the offending
// line with a caret below the column, then the hint.
func (e *FileError) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", e.Line, e.Column)
	}
	b.WriteString(": " + clip(e.Problem))
	if e.Excerpt != "" {
		line, column := around(e.Excerpt, e.Column)
		fmt.Fprintf(&b, "\n  %s\n  %s^", line, margin(line, column))
	}
	if e.Hint != "" {
		b.WriteString("\n  " + clip(e.Hint))
	}
	return b.String()
}

// How much of a line is shown, and how much is said of it, in characters: names and
// lists of names in a file may have any length.
const (
	widest  = 240
	longest = 1000
)

func clip(text string) string {
	if all := []rune(text); len(all) > longest {
		return string(all[:longest]) + "…"
	}
	return text
}

// around cuts a line that would fill a terminal to what stands around a column, and
// gives the column in what is left.
func around(line string, column int) (string, int) {
	all := []rune(line)
	if len(all) <= widest {
		return line, column
	}
	from := max(0, min(column-1, len(all))-widest/2)
	to := min(len(all), from+widest)
	text, at := string(all[from:to]), column-from
	if from > 0 {
		text, at = "…"+text, at+1
	}
	if to < len(all) {
		text += "…"
	}
	return text, at
}

// margin is the white space before a column. It keeps the line's tabs, so that
// the caret stands below its character whatever a tab's width is.
func margin(line string, column int) string {
	var b strings.Builder
	for _, r := range line {
		if column--; column < 1 {
			break
		}
		if r == '\t' {
			b.WriteRune('\t')
		} else {
			b.WriteRune(' ')
		}
	}
	return b.String()
}

// position finds where a person sees a node begin: a block mapping begins at
// its first key, although the parser files it under the first colon.
func position(node ast.Node) (line, column int) {
	if node == nil {
		return 0, 0
	}
	if m, ok := node.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		return position(m.Values[0].Key)
	}
	tok := node.GetToken()
	if tok == nil || tok.Position == nil {
		return 0, 0
	}
	return tok.Position.Line, tok.Position.Column
}

// longestSlip is how long a name may be to be taken for a slip of another one, in
// letters: to compare two takes as many steps as the product of their lengths.
const longestSlip = 100

// Nearest gives the known name that a mistyped one was likely meant to be, and
// the empty string if none is near enough to be worth a suggestion. Swapping
// two neighbouring letters counts as one slip.
func Nearest(name string, known []string) string {
	length := utf8.RuneCountInString(name)
	if length > longestSlip {
		return ""
	}
	best, least := "", max(1, length/3)+1
	for _, k := range slices.Sorted(slices.Values(known)) {
		if longer := utf8.RuneCountInString(k) - length; max(longer, -longer) >= least {
			continue // each letter more or less is a slip
		}
		if d := slips(strings.ToLower(name), strings.ToLower(k)); d < least {
			best, least = k, d
		}
	}
	return best
}

// suggest says what would be right in place of an unknown name.
func suggest(name string, known []string) string {
	if near := Nearest(name, known); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	if len(known) == 0 {
		return "there is none to name"
	}
	return "known: " + strings.Join(slices.Sorted(slices.Values(known)), ", ")
}

// slips is the number of letters to insert, remove, replace or swap with their
// neighbour to turn a into b (optimal string alignment distance).
func slips(a, b string) int {
	s, t := []rune(a), []rune(b)
	before, last := make([]int, len(t)+1), make([]int, len(t)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(s); i++ {
		row := make([]int, len(t)+1)
		row[0] = i
		for j := 1; j <= len(t); j++ {
			change := 1
			if s[i-1] == t[j-1] {
				change = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && s[i-1] == t[j-2] && s[i-2] == t[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(t)]
}
