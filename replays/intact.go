package replays

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
)

// A record says twice what was to be played: in its plan, which the judge reads, and
// in the incident beside it, which the plan was made of and which reports tell of. An
// edit of one of them would make a verdict of what was never asked for.
//
// What was written before the play began is told from an edit by its digests, in the
// record's environment: they hold whichever build reads the record, so that one that
// plans otherwise today takes an old record as it was played. A record without them,
// of a tool that was killed or of a build before there were any, has its plan made
// anew and compared.

// writtenDigests gives the digests of a plan and of an incident's files as a play has
// just written them, by path in the record.
func writtenDigests(inc *Incident, dir string) (map[string]string, error) {
	out := map[string]string{}
	for name, content := range inc.files {
		out[incidentFolder+"/"+name] = digestOf(content)
	}
	plan, err := os.ReadFile(filepath.Join(dir, planFile))
	out[planFile] = digestOf(plan)
	return out, err
}

func digestOf(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// edits finds what was edited in records. It keeps the incidents that it loads: the
// plays of a run have the same one.
type edits struct{ incidents []*Incident }

// refuse refuses a record whose plan, or whose incident, is not what was played.
func (e *edits) refuse(r *Record) error {
	edited, whole := r.written()
	switch {
	case edited == "" && whole:
		return nil
	case edited != "" && edited != planFile:
		return damaged(filepath.Join(r.Dir, filepath.FromSlash(edited)), "it is not as the play has left it")
	}
	path := filepath.Join(r.Dir, planFile)
	inc, err := e.incident(r)
	switch {
	case errors.Is(err, ErrDamaged): // it says so itself
		return err
	case err != nil:
		return damaged(filepath.Join(r.Dir, incidentFolder), "what was to be played cannot be read: %w", err)
	}
	made, err := inc.Plan(r.Plan.Arm, r.Plan.Seed)
	if err != nil {
		return damaged(path, "the incident beside it makes no such plan: %w", err)
	}
	differs, err := r.Plan.differs(made)
	switch {
	case err != nil:
		return err
	case edited != "" && differs != "":
		return damaged(path, "it is not as the play has left it: %s", differs)
	case edited != "":
		return damaged(path, "it is not as the play has left it")
	case differs != "":
		return fmt.Errorf("%s: %w: %s; %s%s", path, ErrDamaged, differs, restoreHint, r.otherBuild())
	}
	return nil
}

// otherBuild is what else to do about a record that cannot tell an edit from a build
// that planned otherwise.
func (r *Record) otherBuild() string {
	if r.Environment.Tool.Commit == "" {
		return ""
	}
	return fmt.Sprintf(", or judge it with the build that played it, %s, if that one planned otherwise", r.Environment.Tool.Commit)
}

// written compares the files that were written before the play began with their
// digests: the first that differs, and whether there are digests at all.
func (r *Record) written() (edited string, whole bool) {
	digests := r.Environment.Written
	for _, name := range slices.Sorted(maps.Keys(digests)) {
		path := filepath.FromSlash(name)
		if !filepath.IsLocal(path) {
			return environmentFile, true
		}
		content, err := readRegular(filepath.Join(r.Dir, path))
		if err != nil || digestOf(content) != digests[name] {
			return name, true
		}
	}
	return "", digests[planFile] != ""
}

// incident gives the incident of a record, which may be that of one before it.
func (e *edits) incident(r *Record) (*Incident, error) {
	for _, inc := range e.incidents {
		if inc.sameAs(r) == nil {
			return inc, nil
		}
	}
	inc, err := r.Incident()
	if err == nil {
		e.incidents = append(e.incidents, inc)
	}
	return inc, err
}

// differs names the first field in which a plan is not as the same incident makes it
// now, with both values; "" where there is none.
func (p *Plan) differs(made *Plan) (string, error) {
	want := *made
	if p.Measured == nil {
		want.Measured = nil // of a build before plans said it
	}
	var values [2]any
	for n, plan := range []*Plan{p, &want} {
		b, err := json.Marshal(plan)
		if err == nil {
			err = json.Unmarshal(b, &values[n])
		}
		if err != nil {
			return "", fmt.Errorf("compare the plan of arm %s: %w", p.Arm, err)
		}
	}
	return difference("", values[0], values[1]), nil
}

// difference compares two values of JSON; at is the way to them.
func difference(at string, have, want any) string {
	switch want := want.(type) {
	case map[string]any:
		have, ok := have.(map[string]any)
		if !ok {
			break
		}
		keys := slices.Concat(slices.Collect(maps.Keys(have)), slices.Collect(maps.Keys(want)))
		slices.Sort(keys)
		for _, key := range slices.Compact(keys) {
			way := key
			if at != "" {
				way = at + "." + key
			}
			if d := difference(way, have[key], want[key]); d != "" {
				return d
			}
		}
		return ""
	case []any:
		have, ok := have.([]any)
		if !ok {
			break
		}
		for n := range min(len(have), len(want)) {
			if d := difference(fmt.Sprintf("%s[%s]", at, entryName(want[n], n)), have[n], want[n]); d != "" {
				return d
			}
		}
		if len(have) == len(want) {
			return ""
		}
		return fmt.Sprintf("%s has %d entries, and by the incident beside it %d", at, len(have), len(want))
	}
	if reflect.DeepEqual(have, want) {
		return ""
	}
	return fmt.Sprintf("%s is %s, and by the incident beside it %s", at, brief(have), brief(want))
}

// entryName is what a reader knows an entry of a list by.
func entryName(entry any, n int) string {
	fields, _ := entry.(map[string]any)
	for _, field := range []string{"name", "id", "alert", "node"} {
		if name, ok := fields[field].(string); ok {
			return name
		}
	}
	return fmt.Sprint(n)
}

// brief writes a value for a message.
func brief(value any) string {
	const most = 120
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // queries have > and <
	if err := e.Encode(value); err != nil {
		return fmt.Sprint(value)
	}
	text := strings.TrimSpace(b.String())
	if letters := []rune(text); len(letters) > most {
		return string(letters[:most]) + "…"
	}
	return text
}
