package topologies

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

func (u *processUnit) logs(_ context.Context, lines int, w io.Writer) error {
	u.log.flush()
	content, err := os.ReadFile(u.log.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it never started
	}
	if err != nil {
		return err
	}
	if lines != allLines {
		all := slices.Collect(strings.Lines(string(content)))
		content = []byte(strings.Join(all[max(0, len(all)-lines):], ""))
	}
	_, err = w.Write(content)
	return err
}

// processLog keeps what a node prints, in all of its lives, each line with its time
// (RFC 3339, UTC) in front.
type processLog struct {
	path string

	mu   sync.Mutex
	file *os.File // nil before the first line
	rest []byte   // of a line that has not ended
}

// longestLine is where a line is cut that does not end.
const longestLine = 64 << 10

func (l *processLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, p...)
	end := strings.LastIndexByte(string(l.rest), '\n') + 1
	if end == 0 && len(l.rest) >= longestLine {
		end = len(l.rest)
	}
	err := l.write(l.rest[:end])
	l.rest = slices.Clone(l.rest[end:])
	return len(p), err
}

// write writes whole lines. The lock is held.
func (l *processLog) write(text []byte) (err error) {
	if len(text) == 0 {
		return nil
	}
	if l.file == nil {
		if l.file, err = os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600); err != nil {
			return err
		}
	}
	now := time.Now().UTC().Format(time.RFC3339Nano)
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		b.WriteString(now + " " + strings.TrimSuffix(line, "\n") + "\n")
	}
	_, err = io.WriteString(l.file, b.String())
	return err
}

// flush writes the line that was begun.
func (l *processLog) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.write(l.rest)
	l.rest = nil
}

func (l *processLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		_ = l.file.Close()
	}
}
