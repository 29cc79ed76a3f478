package replays

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"relapse/topologies"
)

// TestedFile is the file of a play's record that a clean ladder leaves.
const TestedFile = "tested.json"

// testedSchema changes whenever a setting's place changes, so that no difference in
// words passes for one in what is deployed.
const testedSchema = "relapse-tested/1"

// Tested is a configuration that a ladder was climbed with, clean to its top, by a
// play that came out as it should.
type Tested struct {
	Schema        string        `json:"schema"`
	Digest        string        `json:"digest"` // of the configuration
	Incident      string        `json:"incident"`
	Arm           string        `json:"arm"`
	Top           string        `json:"top"`               // the highest step
	Players       float64       `json:"players,omitempty"` // that it stands for
	Load          float64       `json:"load"`              // arrivals per second there
	At            time.Time     `json:"at"`
	Tool          Tool          `json:"tool"`
	Configuration Configuration `json:"configuration"`
}

// ErrNotTested says that a path holds no tested configuration, or not one that can
// be held against anything.
var ErrNotTested = errors.New("no tested configuration")

// Tested gives the configuration that a play tested; false where it had no ladder,
// or not a clean one, or did not come out as it should.
func (r *Record) Tested(v PlayVerdict) (Tested, bool, error) {
	l := v.Ladder
	if l == nil || v.Outcome != Pass || len(l.Steps) == 0 || l.Clean != l.Steps[len(l.Steps)-1].Step {
		return Tested{}, false, nil
	}
	plan := r.Plan
	if plan.nodes == nil { // of a record that was read back
		inc, err := r.Incident()
		if err != nil {
			return Tested{}, false, err
		}
		if plan, err = inc.Plan(r.Plan.Arm, r.Plan.Seed); err != nil {
			return Tested{}, false, err
		}
	}
	top := l.Steps[len(l.Steps)-1]
	return NewTested(Tested{
		Incident: plan.Incident, Arm: plan.Arm, Top: top.Step, Players: top.Players, Load: top.Load,
		At: r.Environment.Started, Tool: r.Environment.Tool, Configuration: plan.Configuration(r.Environment.Images),
	}), true, nil
}

// NewTested fills in what names a tested configuration.
func NewTested(t Tested) Tested {
	t.Schema, t.Digest = testedSchema, t.Configuration.Digest()
	return t
}

// SaveTested leaves [TestedFile] in the record's folder where the play tested its
// configuration.
func (r *Record) SaveTested(v PlayVerdict) error {
	t, ok, err := r.Tested(v)
	if err != nil || !ok {
		return err
	}
	return WriteJSON(filepath.Join(r.Dir, TestedFile), t)
}

// ReadTested reads a tested configuration: a file, the folder of a play, or that of
// a run of several plays, which must have tested one and the same. An error wraps
// [ErrNotTested] where there is none to be had.
func ReadTested(path string) (Tested, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Tested{}, fmt.Errorf("%s: %w: there is no such file or folder; name that of a play or of a run", path, ErrNotTested)
	}
	if err != nil { // such as a link that leads to itself
		return Tested{}, fmt.Errorf("%s: %w: %w; name the folder of a play or of a run", path, ErrNotTested, err)
	}
	if !info.IsDir() {
		return readTested(path)
	}
	if t, err := readTested(filepath.Join(path, TestedFile)); !errors.Is(err, fs.ErrNotExist) {
		return t, err
	}
	var run Matrix
	if err := readJSON(filepath.Join(path, matrixFile), &run); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Tested{}, err
	}
	var found []Tested
	for _, play := range run.Plays {
		if !beside(play) {
			return Tested{}, damaged(filepath.Join(path, matrixFile), "play %q is no folder beside it", play)
		}
		t, err := readTested(filepath.Join(path, play, TestedFile))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return Tested{}, err
		}
		if !slices.ContainsFunc(found, func(other Tested) bool { return other.Digest == t.Digest }) {
			found = append(found, t)
		}
	}
	switch len(found) {
	case 0:
		return Tested{}, fmt.Errorf("%s: %w: no play of it climbed a ladder clean to its top", path, ErrNotTested)
	case 1:
		return found[0], nil
	}
	return Tested{}, fmt.Errorf("%s: %w that all of its plays share: arm %s was tested with %s and arm %s with %s; name the folder of one play",
		path, ErrNotTested, found[0].Arm, found[0].Digest, found[1].Arm, found[1].Digest)
}

func readTested(path string) (Tested, error) {
	var t Tested
	if err := readJSON(path, &t); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return Tested{}, err
		}
		return Tested{}, fmt.Errorf("%w: %w", ErrNotTested, err)
	}
	switch {
	case t.Schema != testedSchema:
		return Tested{}, fmt.Errorf("%s: %w: its schema is %q, and this tool reads %s; climb the ladder again", path, ErrNotTested, t.Schema, testedSchema)
	case t.Digest != t.Configuration.Digest():
		return Tested{}, fmt.Errorf("%s: %w: its digest is %s, and what it holds has %s: it is not as the play left it; climb the ladder again", path, ErrNotTested, t.Digest, t.Configuration.Digest())
	}
	return t, nil
}

// Present says what this machine's engine has for the images of the plan's
// topology, and what build of our own would run; see [topologies.PresentImages].
func (p *Plan) Present(ctx context.Context, binary string) ([]topologies.ImageUse, error) {
	return topologies.PresentImages(ctx, p.nodes, binary)
}
