package topologies

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"
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
	return failInside(file, src, firstLine, content, at[2], word,
		fmt.Sprintf("%q makes the program ask DNS, past its links", word),
		"name the server in an upstream or server line without it: the name is looked up once, in the hosts file that leads to the link")
}

// failInside refuses a word of a config's content, by its place in the file that the
// content stands in, or is.
func failInside(file string, src []byte, firstLine int, content []byte, offset int, word, problem, hint string) error {
	if firstLine == 0 {
		return NewFileError(file, src, 0, 0, problem, hint)
	}
	line := firstLine + strings.Count(string(content[:offset]), "\n")
	column := 1
	if lines := strings.Split(string(src), "\n"); line <= len(lines) {
		column = max(1, strings.Index(lines[line-1], word)+1)
	}
	return NewFileError(file, src, line, column, problem, hint)
}

// generators are our own services that make load.
var generators = []string{"players", "simulants"}

// targetURL finds whom a generator's configuration names, in what is no comment.
var targetURL = regexp.MustCompile(`(?m)^(?:[^#\n]|[^\s#]#)*?\bhttps?://(\[[^\]\s]*\]|[\w.~%-]+)`)

// checkTargets refuses a generator that would make load for anything but a server that
// it is linked to, whatever an address or DNS says that the name is. The network has no
// way out and the generator looks again, at the addresses; this says it before anything
// starts, and with the place.
func checkTargets(s types.ServiceConfig, mounted, file string, src []byte, firstLine int, content []byte) error {
	if s.Image != OwnImage || len(s.Command) < 2 || s.Command[0] != "service" || !slices.Contains(generators, s.Command[1]) ||
		!slices.ContainsFunc(s.Command, func(word string) bool { return word == mounted || strings.HasSuffix(word, "="+mounted) }) {
		return nil
	}
	for from := 0; ; {
		at := targetURL.FindSubmatchIndex(content[from:])
		if at == nil {
			return nil
		}
		host := string(content[from+at[2] : from+at[3]])
		own, err := netip.ParseAddr(strings.Trim(host, "[]"))
		linked := slices.ContainsFunc(s.Links, func(link string) bool {
			server, _, _ := strings.Cut(link, ":")
			return server == host
		})
		if !linked && host != "localhost" && (err != nil || !own.IsLoopback()) {
			return failInside(file, src, firstLine, content, from+at[2], host,
				fmt.Sprintf("load for %s: it is no server that %s is linked to, and load is made for nothing outside the topology", host, s.Name),
				"name a service of this topology, and write it under links: of "+s.Name)
		}
		from += at[3]
	}
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
