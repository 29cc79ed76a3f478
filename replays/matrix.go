package replays

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// ErrDamaged is wrapped where a record is not as a play leaves it: cut short,
// edited, or put together from others.
var ErrDamaged = errors.New("the record is damaged")

// restoreHint is what to do about a damaged record.
const restoreHint = "restore it from a copy, or play it anew"

func damaged(path, format string, args ...any) error {
	return fmt.Errorf("%s: %w: %w; %s", path, ErrDamaged, fmt.Errorf(format, args...), restoreHint)
}

// check refuses a matrix that no run has written, before any of its plays is read.
func (m Matrix) check(dir string) error {
	path := filepath.Join(dir, matrixFile)
	switch {
	case m.Incident == "":
		return damaged(path, "it names no incident")
	case m.Repeat < 1:
		return damaged(path, "repeat is %d, and an arm is played at least once", m.Repeat)
	case m.Seconds < 0 || m.SetUp < 0:
		return damaged(path, "the run took %g s, and getting images %g s", m.Seconds, m.SetUp)
	}
	seen := map[string]bool{}
	for _, name := range m.Plays {
		if !beside(name) {
			return damaged(path, "play %q is no folder beside it", name)
		}
		if seen[name] {
			return damaged(path, "play %s is listed twice", name)
		}
		seen[name] = true
		info, err := os.Lstat(filepath.Join(dir, name))
		if err != nil {
			return damaged(path, "play %s cannot be found: %w", name, err)
		}
		if !info.IsDir() {
			return damaged(path, "play %s is no folder beside it", name)
		}
	}
	return nil
}

// beside says whether a name is that of a folder beside the matrix, rather than a
// path that leads elsewhere.
func beside(name string) bool {
	return name != "" && name != "." && name != ".." && name == filepath.Base(name)
}

// playName is what stands behind the arm in the folder of a play.
var playName = regexp.MustCompile(`^-[0-9]+(-again-[0-9]+)?$`)

// holds refuses a play that is none of the matrix.
func (m Matrix) holds(dir, name string, p *Plan) error {
	rest, ok := strings.CutPrefix(name, p.Arm)
	switch {
	case p.Incident != m.Incident:
		return damaged(filepath.Join(dir, name), "it is a play of %s, and the matrix is of %s", p.Incident, m.Incident)
	case !slices.Contains(m.Arms, p.Arm):
		return damaged(filepath.Join(dir, name), "it is a play of arm %s, which the matrix does not list", p.Arm)
	case !ok || !playName.MatchString(rest):
		return damaged(filepath.Join(dir, name), "it is a play of arm %s, by its plan", p.Arm)
	}
	return nil
}

// copied refuses plays of one arm with one seed: of a play and its copy only one
// was played.
func copied(records []*Record) error {
	type draw struct {
		arm  string
		seed uint64
	}
	before := map[draw]string{}
	for _, r := range records {
		d := draw{r.Plan.Arm, r.Plan.Seed}
		if other, ok := before[d]; ok {
			return damaged(r.Dir, "it has the seed of %s, %d, and so is a copy of it", filepath.Base(other), d.seed)
		}
		before[d] = r.Dir
	}
	return nil
}

// known refuses arms that the incident does not have, as it was when the first
// play was made.
func (m Matrix) known(dir string, r *Record) error {
	inc, err := r.Incident()
	if err != nil {
		return damaged(filepath.Join(r.Dir, incidentFolder), "which arms there are cannot be read: %w", err)
	}
	all := inc.Arms()
	for _, arm := range m.Arms {
		if !slices.Contains(all, arm) {
			return damaged(filepath.Join(dir, matrixFile), "%w", &UnknownArmError{Incident: inc.Name, Arm: arm, Arms: all})
		}
	}
	return nil
}

// missing says of which arms there are fewer plays than were asked for.
func (m Matrix) missing(plays []Judged) []string {
	have := map[string]int{}
	for _, p := range plays {
		have[p.Plan.Arm]++
	}
	var out []string
	for _, arm := range m.Arms {
		if have[arm] < m.Repeat {
			out = append(out, fmt.Sprintf("arm %s has %d of %d plays: go on with verify --resume", arm, have[arm], m.Repeat))
		}
	}
	return out
}
