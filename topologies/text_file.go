package topologies

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"unicode"
	"unicode/utf8"
)

// Bounds of a file that a person writes. The largest of the library has 25 kB;
// what is far beyond is no such file, and the parsers behind would take minutes
// or all memory for some of what it could hold.
const (
	maxText    = 256 << 10 // bytes
	maxNesting = 500       // brackets that are open at one place, lists that begin on one line
)

// NamedFS is a file system whose place is known, so that errors can name files
// as people would open them.
type NamedFS struct {
	fs.FS
	Root string // its folder, as it can be opened from where people are
}

// Stat looks at a file without opening it: a pipe would be waited for.
func (n NamedFS) Stat(name string) (fs.FileInfo, error) { return fs.Stat(n.FS, name) }

// DisplayPath names a file of fsys for people: below the root of a [NamedFS], and
// as it is in any other file system.
func DisplayPath(fsys fs.FS, file string) string {
	if n, ok := fsys.(NamedFS); ok {
		return filepath.Join(n.Root, filepath.FromSlash(file))
	}
	return file
}

// ReadText reads a file that a person writes: an incident, a compose file, an
// overlay, alert rules. What is no file, too large or no text is refused with a
// [*FileError]; display is the name that the error gives it.
func ReadText(fsys fs.FS, name, display string) ([]byte, error) {
	info, err := fs.Stat(fsys, name)
	if err != nil {
		return nil, err
	}
	refuse := func(problem, hint string) ([]byte, error) {
		return nil, NewFileError(display, nil, 0, 0, problem, hint)
	}
	// Before it is opened: a pipe would be waited for.
	if !info.Mode().IsRegular() {
		return refuse("this is no regular file", "put the file itself there, not a folder, a pipe or a device")
	}
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	src, err := io.ReadAll(io.LimitReader(f, maxText+1))
	if err != nil {
		return nil, err
	}
	if len(src) > maxText {
		return refuse(fmt.Sprintf("this file has more than %d KiB", maxText>>10), "keep to what is played; data that nodes need goes into files of their own, under configs")
	}
	return src, checkText(display, src)
}

// checkText refuses what is no plain UTF-8 text, or opens brackets or lists without
// end.
func checkText(display string, src []byte) error {
	if bytes.HasPrefix(src, []byte("\xef\xbb\xbf")) {
		return NewFileError(display, shown(src), 1, 1, "the file begins with a byte order mark", "save it as UTF-8 without BOM")
	}
	line, column, open, lists := 1, 1, 0, 0
	before := '\n'
	for rest := src; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		rest = rest[size:]
		switch {
		case r == utf8.RuneError && size == 1:
			return NewFileError(display, shown(src), line, column, "this is not UTF-8 text", "save the file as UTF-8")
		case r < ' ' && r != '\n' && r != '\r' && r != '\t', r == 0x7f:
			return NewFileError(display, shown(src), line, column, fmt.Sprintf("a control character (%U) is no text", r), "take it out, or save the file as UTF-8")
		case r == '[' || r == '{' || r == '(':
			open++
		case (r == ']' || r == '}' || r == ')') && open > 0:
			open--
		case (r == '-' || r == '?') && unicode.IsSpace(before) && bytes.HasPrefix(rest, []byte(" ")):
			lists++
		}
		switch {
		case open > maxNesting:
			return NewFileError(display, shown(src), line, column, fmt.Sprintf("more than %d brackets are open here", maxNesting), "close them")
		case lists > maxNesting:
			return NewFileError(display, shown(src), line, column, fmt.Sprintf("more than %d lists begin on this line", maxNesting), "write each entry on a line of its own")
		}
		if column, before = column+1, r; r == '\n' {
			line, column, lists = line+1, 1, 0
		}
	}
	return nil
}

// shown is the text as a terminal may have it.
func shown(src []byte) []byte {
	return bytes.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f {
			return utf8.RuneError
		}
		return r
	}, src)
}
