package topologies

import (
	"bytes"
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
)

// Masked stands for the value of a secret in all that is written of a topology.
const Masked = "masked"

var secretName = regexp.MustCompile(`(?i)passw(or)?d|passphrase|secret|token|credential|(\b|_|api|private|access)keys?(\b|_)`)

// Secret says whether a variable of this name holds what nobody should read in a
// record: a password, a secret, a token or a key.
func Secret(name string) bool { return secretName.MatchString(name) }

// shortestSecret is how long a value must be to be looked for in what nodes print, in
// bytes: a shorter one stands there for much else.
const shortestSecret = 6

// Secrets are the values of the nodes' secret variables, a line each, the longest
// first, as far as they can be told from the topology's other words: a password that is
// the name of its node hides nothing.
func (t *Topology) Secrets() []string {
	var secrets, words []string
	for _, n := range t.Nodes {
		words = append(words, n.Name, n.Image, n.User)
		for name, value := range n.Environment {
			if Secret(name) {
				secrets = append(secrets, strings.Split(value, "\n")...)
			} else {
				words = append(words, value)
			}
		}
	}
	secrets = slices.DeleteFunc(secrets, func(s string) bool {
		return len(s) < shortestSecret || s == Masked || slices.ContainsFunc(words, func(w string) bool { return strings.Contains(w, s) })
	})
	slices.SortFunc(secrets, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	return slices.Compact(secrets)
}

// MaskFile gives a file of a topology's folder, by its path there, as a record keeps
// it: in compose files, [Masked] stands in the place of each value of a secret
// variable, and all else stays as it is. Display is the file's name for people. The
// error is a [*FileError] where a value is written in a way that cannot be masked.
func MaskFile(name, display string, src []byte) ([]byte, error) {
	if folder, file := path.Split(name); name != ComposeFile && (folder != "overlays/" || path.Ext(file) != ".yaml") || !secretName.Match(src) {
		return src, nil
	}
	d, err := parseDocument(display, src)
	if err != nil {
		// If anything uses it, it is refused when it is loaded.
		return []byte("# This file could not be read, and nothing used it.\n"), nil
	}
	masked := slices.Clone(src)
	found := d.secrets()
	// From the last one on, so that the places of the others stay.
	slices.SortFunc(found, func(a, b secret) int { return cmp.Compare(b.offset, a.offset) })
	for _, s := range found {
		if s.offset < 0 {
			return nil, d.unmasked(s)
		}
		masked = slices.Replace(masked, s.offset, s.end, []byte(s.instead)...)
	}
	again, err := parseDocument(display, masked)
	if err != nil || len(again.secrets()) > 0 {
		return nil, d.unmasked(found[0])
	}
	return masked, nil
}

// unmasked refuses a value that cannot be masked.
func (d *document) unmasked(s secret) *FileError {
	return d.fail(s.at, fmt.Sprintf("the value of %s is a secret, and written so that a record cannot leave it out", s.name),
		"write it on one line, in double quotes, with \\n for each end of a line in it")
}

// secret is the value of a secret variable, and where it stands in the file: offset is
// below zero where that cannot be told.
type secret struct {
	name        string
	at          ast.Node
	offset, end int
	instead     string // what is written there when it is masked
}

// secrets are those of a document that are not masked yet, each once: also in parts
// that no service uses, since all of the file is kept.
func (d *document) secrets() []secret {
	var out []secret
	note := func(v value, name, before, text string) {
		if !Secret(name) || text == "" || text == Masked {
			return
		}
		s := secret{name: name, at: v.node}
		s.offset, s.end, s.instead = d.scalar(v.node, before+text, before+Masked)
		if !slices.ContainsFunc(out, func(o secret) bool { return o.at == s.at }) {
			out = append(out, s)
		}
	}
	ast.Walk(visitor(func(n ast.Node) {
		kv, ok := n.(*ast.MappingValueNode)
		if !ok || kv.Key.IsMergeKey() {
			return
		}
		name := keyText(kv.Key)
		v := d.value(name, kv.Key, kv.Value)
		if text, ok := v.text(); ok {
			note(v, name, "", text)
			return
		}
		if items, ok := v.items(); ok && name == "environment" {
			for _, item := range items {
				text, _ := item.text()
				if variable, value, ok := strings.Cut(text, "="); ok {
					note(item, variable, variable+"=", value)
				}
			}
		}
	}), d.root)
	return out
}

// scalar finds what stands for a text in the file, and gives what to write there for
// another text, in the same quotes. The offset is below zero where it does not stand
// there on one line.
func (d *document) scalar(n ast.Node, text, instead string) (offset, end int, with string) {
	line, column := position(n)
	lines := bytes.SplitAfter(d.src, []byte("\n"))
	if _, block := n.(*ast.LiteralNode); block || line < 1 || line > len(lines) {
		return -1, 0, ""
	}
	for _, l := range lines[:line-1] {
		offset += len(l)
	}
	rest := bytes.TrimRight(lines[line-1], "\r\n")
	for range column - 1 {
		_, size := utf8.DecodeRune(rest)
		rest, offset = rest[size:], offset+size
	}
	switch {
	case len(rest) == 0:
	case rest[0] == '"' || rest[0] == '\'':
		quote := rest[0]
		for i := 1; i < len(rest); i++ {
			switch {
			case quote == '"' && rest[i] == '\\', quote == '\'' && rest[i] == quote && i+1 < len(rest) && rest[i+1] == quote:
				i++ // with what it escapes
			case rest[i] == quote:
				return offset, offset + i + 1, string(quote) + instead + string(quote)
			}
		}
	case bytes.HasPrefix(rest, []byte(text)):
		return offset, offset + len(text), instead
	}
	return -1, 0, ""
}
