package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var update = flag.Bool("update", false, "rewrite the golden files under testdata")

// badInput is one way in which a folder that the tool reads is bad.
type badInput struct {
	name string
	file string // in the folder, which old is replaced by new in
	old  string // "" for all of the file
	new  string
	// change does what is more than replacing a text.
	change func(path string) error
	// whole says that the message names the file as a whole and no place in it.
	whole bool
}

// make spoils a copy of a folder.
func (b badInput) make(t *testing.T, from string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "bad")
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, filepath.FromSlash(b.file))
	if b.change != nil {
		if err := b.change(path); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	content := b.new
	if b.old != "" {
		have, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(have, []byte(b.old)) {
			t.Fatalf("%s does not hold %q", b.file, b.old)
		}
		content = strings.Replace(string(have), b.old, b.new, 1)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// badInputWithin is how long the tool may take to refuse what is bad. None takes a
// second on a quiet machine.
const badInputWithin = 20 * time.Second

// refuse runs the tool over each of the folders, which BAD stands for in the command.
// Every one ends as bad input, in time, with a message that says what to do
// next; a golden file has all of them.
func refuse(t *testing.T, cases []badInput, from, want string, place *regexp.Regexp, command ...string) {
	t.Helper()
	seen := map[string]bool{}
	var told strings.Builder
	for _, c := range cases {
		if seen[c.name] {
			t.Fatalf("two cases are named %s", c.name)
		}
		seen[c.name] = true
		t.Run(c.name, func(t *testing.T) {
			dir := c.make(t, from)
			ctx, cancel := context.WithTimeout(t.Context(), badInputWithin)
			defer cancel()
			var args []string
			for _, arg := range command {
				args = append(args, strings.ReplaceAll(arg, "BAD", dir))
			}
			code, message := said(t, ctx, args...)
			message = strings.ReplaceAll(message, dir, "BAD")
			fmt.Fprintf(&told, "## %s\n%s", c.name, message)
			switch last := message[strings.LastIndexByte(strings.TrimSuffix(message, "\n"), '\n')+1:]; {
			case ctx.Err() != nil:
				t.Errorf("not refused within %s", badInputWithin)
			case code != exitBadInput:
				t.Errorf("exit code %d, want %d: %s", code, exitBadInput, message)
			case len(message) > 4000:
				t.Errorf("a message of %d bytes", len(message))
			case !c.whole && !place.MatchString(message):
				t.Errorf("no place in the message: %s", message)
			case strings.HasSuffix(strings.TrimSpace(last), "^") && !strings.Contains(message, "want "):
				t.Errorf("nothing says what would be right: %s", message)
			}
		})
	}
	path := filepath.Join("testdata", "bad-input", want)
	if *update {
		if err := os.WriteFile(path, []byte(told.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	golden, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v: run the test with -update and read what it writes", err)
	}
	if string(golden) == told.String() {
		return
	}
	have, wanted := strings.Split(told.String(), "\n"), strings.Split(string(golden), "\n")
	for n := range have {
		if n >= len(wanted) || have[n] != wanted[n] {
			t.Fatalf("%s:%d is not what is told now:\n%s", path, n+1, strings.Join(have[n:min(n+4, len(have))], "\n"))
		}
	}
	t.Errorf("%s holds more than is told now", path)
}

// said runs the tool and gives its exit code and what it wrote to stderr.
func said(t *testing.T, ctx context.Context, args ...string) (int, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "stderr")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	stderr, stdout := os.Stderr, os.Stdout
	os.Stderr = file
	if os.Stdout, err = os.OpenFile(os.DevNull, os.O_WRONLY, 0); err != nil {
		t.Fatal(err)
	}
	code := run(ctx, args)
	err = os.Stdout.Close()
	os.Stderr, os.Stdout = stderr, stdout
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	out, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return code, string(out)
}

// What the files of several kinds can be made into.

// otherBytes are whole files that are no text, too much of it, or none.
func otherBytes(file, text string) []badInput {
	wide := func(order func(uint16) []byte) string {
		var b bytes.Buffer
		for _, r := range text {
			b.Write(order(uint16(r)))
		}
		return b.String()
	}
	cases := []badInput{
		{name: "empty", whole: true},
		{name: "spaces alone", new: " \n \n", whole: true},
		{name: "a comment alone", new: "# nothing yet\n", whole: true},
		{name: "a byte order mark", new: "\xef\xbb\xbf" + text},
		{name: "UTF-16, little end first", new: "\xff\xfe" + wide(func(v uint16) []byte { return []byte{byte(v), byte(v >> 8)} })},
		{name: "UTF-16, big end first", new: "\xfe\xff" + wide(func(v uint16) []byte { return []byte{byte(v >> 8), byte(v)} })},
		{name: "UTF-16 without a mark", new: wide(func(v uint16) []byte { return []byte{byte(v), byte(v >> 8)} })},
		{name: "Latin-1", new: "# caf\xe9\n" + text},
		{name: "a NUL byte", new: text + "\x00"},
		{name: "an escape sequence", new: "# \x1b[31m\n" + text},
		{name: "a program", new: "\x7fELF\x02\x01\x01\x00\x00"},
		{name: "50 MB", change: func(path string) error { return os.Truncate(path, 50<<20) }, whole: true},
		{name: "more text than a person writes", new: text + strings.Repeat("# and so on\n", 30_000), whole: true},
		{name: "a folder", change: func(path string) error { return replaced(path, os.Mkdir(path+".folder", 0o755), path+".folder") }, whole: true},
		{name: "a pipe", change: func(path string) error { return replaced(path, unix.Mkfifo(path+".pipe", 0o644), path+".pipe") }, whole: true},
		{name: "a link to itself", change: func(path string) error {
			return replaced(path, os.Symlink(filepath.Base(path), path+".link"), path+".link")
		}, whole: true},
		{name: "a link to nowhere", change: func(path string) error { return replaced(path, os.Symlink("nowhere", path+".link"), path+".link") }, whole: true},
		{name: "a link to a device", change: func(path string) error { return replaced(path, os.Symlink("/dev/zero", path+".link"), path+".link") }, whole: true},
	}
	for n := range cases {
		cases[n].file, cases[n].name = file, file+": "+cases[n].name
	}
	return cases
}

// replaced puts what was made under another name in a file's place.
func replaced(path string, err error, by string) error {
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil {
		return err
	}
	return os.Rename(by, path)
}

// otherYAML are files that are no yaml, not one mapping of it, or more than it seems.
func otherYAML(file, text string) []badInput {
	var laughs, merges strings.Builder
	laughs.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	merges.WriteString("a0: &a0 {x: 1}\n")
	for n := 1; n < 30; n++ {
		ten := strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", n-1), 10), ", ")
		fmt.Fprintf(&laughs, "a%d: &a%d [%s]\n", n, n, ten)
		fmt.Fprintf(&merges, "a%d: &a%d {<<: [%s]}\n", n, n, ten)
	}
	var nested strings.Builder
	for n := range 400 {
		fmt.Fprintf(&nested, "%sdeeper:\n", strings.Repeat(" ", n))
	}
	unknown := strings.Repeat("unknown", 10_000)
	var many, keys strings.Builder
	for n := range 10_000 {
		fmt.Fprintf(&many, "- *b%d\n- &a%d x\n", n, n)
		fmt.Fprintf(&keys, "key%d:\n", n)
	}
	cases := []badInput{
		{name: "a number", new: "42\n"},
		{name: "a text", new: "nothing but this\n"},
		{name: "null", new: "null\n"},
		{name: "an empty list", new: "[]\n"},
		{name: "a list", new: "- " + strings.ReplaceAll(text, "\n", "\n  ")},
		{name: "a second document", new: text + "---\n" + text},
		{name: "a tab", new: text + "\tmore: x\n"},
		{name: "a bracket that is not closed", new: text + "more: [\n"},
		{name: "a quote that is not closed", new: text + "more: \"x\n"},
		{name: "an anchor that holds itself", new: "a: &a [*a]\n" + text},
		{name: "an anchor that merges itself", new: "a: &a {<<: *a}\n" + text},
		{name: "an alias of nothing", new: "a: *nobody\n" + text},
		{name: "aliases of aliases", new: laughs.String() + text},
		{name: "merges of merges", new: merges.String() + text},
		{name: "a merge of a text", new: text + "<<: x\n"},
		{name: "a top-level key twice", new: text + text},
		{name: "brackets in brackets", new: "a: " + strings.Repeat("[", 100_000) + "\n"},
		{name: "mappings in mappings", new: "a: " + strings.Repeat("{a: ", 50_000) + "\n"},
		{name: "lists in lists", new: strings.Repeat("- ", 100_000) + "x\n"},
		{name: "lines that go deeper and deeper", new: nested.String()},
		{name: "a key of 70 kB", new: unknown + ": x\n" + text},
		{name: "an alias of 70 kB", new: "a: &b" + unknown + " x\nb: *a" + unknown + "\n"},
		{name: "10,000 aliases of nothing", new: many.String()},
		{name: "10,000 keys without values", new: keys.String()},
		{name: "50,000 entries without values", new: strings.Repeat("-\n", 50_000)},
		{name: "an unknown field", new: text + "more: x\n"},
		{name: "a field without a name", new: text + "\"\": x\n"},
		{name: "a mapping for a key", new: text + "? {a: b}\n: c\n"},
	}
	for n := range cases {
		cases[n].file, cases[n].name = file, file+": "+cases[n].name
	}
	return cases
}
