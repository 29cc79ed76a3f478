package faults

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// Reference writes the reference of all kinds in markdown, from what they
// registered.
func Reference(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprint(b, `# Faults

How a topology is broken. This page is generated from the files beside it: each
kind is one file, which registers the kind with the texts below.

A fault is named and described in an incident file and held during phases:

`+"```yaml"+`
faults:
  cache-stall: {kind: latency, links: ["nginx-* -> memcached"], latency: 2s}
phases:
  - {name: stall, lasts: 12s, faults: [cache-stall]}
`+"```"+`

Every fault is looked for from outside before a play counts: it must be seen
after it was injected and must be gone after it was undone. Durations are
written `+"`100ms`, rates `2.5Mbit` or `300kB` (per second), shares `2%`"+`, and
sizes as in a compose file: `+"`64m`"+`.
Links are written `+"`client -> server` or `client -> server:port`, and `*`"+` matches
any part of a name.

| kind | breaks | summary |
| --- | --- | --- |
`)
	for _, k := range Kinds() {
		fmt.Fprintf(b, "| [%s](#%s) | %s | %s |\n", k.Name, k.Name, k.Group, k.Summary)
	}
	for _, k := range Kinds() {
		fmt.Fprintln(b)
		k.reference(b)
	}
	return flush(b)
}

// ReferenceOf writes the part of one kind; an unknown one is an
// *[UnknownKindError].
func ReferenceOf(w io.Writer, kind string) error {
	k, err := lookup(kind)
	if err != nil {
		return err
	}
	b := bufio.NewWriter(w)
	k.reference(b)
	return flush(b)
}

func (k Kind) reference(b *bufio.Writer) {
	fmt.Fprintf(b, "## %s\n\n%s.\n\n%s\n\n", k.Name, k.Summary, strings.TrimSpace(k.Doc))
	fmt.Fprint(b, "| parameter | value | meaning |\n| --- | --- | --- |\n")
	for _, p := range parameters(k.make()) {
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", p.name, p.wants(), p.doc)
	}
	fmt.Fprintf(b, "\nSeen from outside: %s\n\n```yaml\nkind: %s\n%s\n```\n", strings.TrimSpace(k.Seen), k.Name, strings.TrimSpace(k.Example))
}

func flush(b *bufio.Writer) error {
	if err := b.Flush(); err != nil {
		return fmt.Errorf("write the reference of faults: %w", err)
	}
	return nil
}
