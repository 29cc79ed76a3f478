package replays

import (
	"bytes"
	"io"
	"strings"

	"relapse/topologies"
)

// masker gives what takes secrets out of a text; nil where there are none.
func masker(secrets []string) func(string) string {
	if len(secrets) == 0 {
		return nil
	}
	var pairs []string
	for _, s := range secrets {
		pairs = append(pairs, s, topologies.Masked)
	}
	return strings.NewReplacer(pairs...).Replace
}

// maskWriter takes secrets out of what a node printed, line by line: a write may end in
// the middle of one.
type maskWriter struct {
	to   io.Writer
	mask func(string) string
	line []byte // begun, and not ended yet
}

// longestLine is what is kept of a line that does not end; what is longer is written in
// parts.
const longestLine = 1 << 20

func newMaskWriter(to io.Writer, secrets []string) *maskWriter {
	return &maskWriter{to: to, mask: masker(secrets)}
}

func (w *maskWriter) Write(b []byte) (int, error) {
	if w.mask == nil {
		return w.to.Write(b)
	}
	w.line = append(w.line, b...)
	whole := bytes.LastIndexByte(w.line, '\n') + 1
	if whole == 0 && len(w.line) > longestLine {
		whole = len(w.line)
	}
	if whole > 0 {
		if _, err := io.WriteString(w.to, w.mask(string(w.line[:whole]))); err != nil {
			return 0, err
		}
		w.line = append(w.line[:0], w.line[whole:]...)
	}
	return len(b), nil
}

// end writes a last line that did not end.
func (w *maskWriter) end() error {
	if len(w.line) == 0 {
		return nil
	}
	_, err := io.WriteString(w.to, w.mask(string(w.line)))
	w.line = nil
	return err
}
