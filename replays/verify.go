package replays

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"relapse/topologies"
)

// retries is how often an unknown play is played again.
const retries = 2

// matrixFile says what a run of several plays was asked for.
const matrixFile = "matrix.json"

// Matrix is a run of several arms of an incident, each some times.
type Matrix struct {
	Incident string    `json:"incident"`
	Arms     []string  `json:"arms"`
	Repeat   int       `json:"repeat"`
	Seed     uint64    `json:"seed"`
	Started  time.Time `json:"started"`
	Command  []string  `json:"command"`
	Plays    []string  `json:"plays"`             // folders, in the order played
	Seconds  float64   `json:"seconds"`           // from the first play's start to the last one's end, without SetUp
	SetUp    float64   `json:"set_up"`            // seconds for getting images, once a machine
	Trouble  string    `json:"trouble,omitempty"` // why it ended before all that was asked for was played
	// Unfinished is what a run is until its end: one whose tool died stays so.
	Unfinished bool `json:"unfinished,omitempty"`
	// Resumed is when and by which build it was gone on with.
	Resumed []Resumption `json:"resumed,omitempty"`
}

// Resumption is that a run which had ended early was gone on with.
type Resumption struct {
	At    time.Time `json:"at"`
	Tool  Tool      `json:"tool"`
	After int       `json:"after"` // plays
}

// VerifyOptions say what [Verify] plays.
type VerifyOptions struct {
	PlayOptions
	Dir    string
	Arms   []string // in the order to play them
	Repeat int
	Seed   uint64
	// Playing is told of every play before it starts, Played after it was
	// judged; either may be nil.
	Playing func(plan *Plan, round, attempt int)
	Played  func(plan *Plan, verdict PlayVerdict)
	// Resumed is told what there is of a run that is gone on with; it may be nil.
	Resumed func(m Matrix)
}

// Verify plays arms of an incident and judges them together. Rounds come one
// after the other rather than arm by arm, so that a noisy minute spoils one
// play of each arm and not all plays of one.
//
// An error means trouble with the rig. The verdict over what was played until
// then comes with it.
func Verify(ctx context.Context, inc *Incident, o VerifyOptions) (Verdict, error) {
	return NewCampaign(inc, o).all(ctx)
}

// Resume goes on with a run that ended early, in the folder that the options
// name: what was played and told is not played again. Arms, repeat and seed are
// those of the run. It is refused where the incident has changed since, with
// [ErrOtherIncident].
func Resume(ctx context.Context, inc *Incident, o VerifyOptions) (Verdict, error) {
	run, err := resumable(inc, o.Dir)
	if err != nil {
		return Verdict{}, err
	}
	m := run.Matrix
	m.Resumed = append(m.Resumed, Resumption{At: time.Now(), Tool: o.Tool, After: len(m.Plays)})
	m.Trouble, m.Unfinished = "", true
	o.Arms, o.Repeat, o.Seed = m.Arms, m.Repeat, m.Seed
	c := NewCampaign(inc, o)
	c.matrix, c.before, c.plays = m, m.Seconds, run.Plays
	for n, name := range m.Plays {
		c.judged[name] = run.Plays[n].Verdict
	}
	if o.Resumed != nil {
		o.Resumed(m)
	}
	return c.all(ctx)
}

// CheckResume refuses what [Resume] would, and plays nothing: it needs no lock of
// the machine.
func CheckResume(inc *Incident, dir string) error {
	_, err := resumable(inc, dir)
	return err
}

// resumable reads a run that can be gone on with.
func resumable(inc *Incident, dir string) (*Run, error) {
	run, err := ReadRun(dir)
	if err != nil {
		return nil, err
	}
	if len(run.Matrix.Plays) == 0 {
		return nil, fmt.Errorf("%s: %w of several plays that could be gone on with", dir, ErrNoRecord)
	}
	for _, r := range run.Records {
		if err := inc.sameAs(r); err != nil {
			return nil, err
		}
	}
	return run, nil
}

// ErrOtherIncident says that a run was of another incident, or of one that has
// been changed since.
var ErrOtherIncident = errors.New("the run is of another incident")

// sameAs compares the files of an incident with those that a play was made of.
func (i *Incident) sameAs(r *Record) error {
	if r.Plan.Incident != i.Name {
		return fmt.Errorf("%s: %w: %s, not %s", r.Dir, ErrOtherIncident, r.Plan.Incident, i.Name)
	}
	for name, content := range i.files {
		saved, err := readRegular(filepath.Join(r.Dir, incidentFolder, filepath.FromSlash(name)))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err != nil || !bytes.Equal(saved, content) {
			return fmt.Errorf("%s: %w: %s has changed since; play it anew", r.Dir, ErrOtherIncident, name)
		}
	}
	return nil
}

// all plays what was asked for and not played yet.
func (c *Campaign) all(ctx context.Context) (Verdict, error) {
	var trouble error
rounds:
	for round := range c.o.Repeat {
		for _, arm := range c.o.Arms {
			if _, trouble = c.Play(ctx, arm, round); trouble != nil {
				break rounds
			}
		}
	}
	if trouble != nil {
		c.matrix.Trouble = trouble.Error()
	}
	v, err := c.End()
	return v, errors.Join(trouble, err)
}

// Campaign is a run of several plays into one folder, judged together at its
// end.
type Campaign struct {
	inc    *Incident
	o      VerifyOptions
	matrix Matrix
	plays  []Judged
	judged map[string]PlayVerdict // by folder
	images map[string]bool        // that were got
	began  time.Time
	before float64 // seconds of the run before it was resumed
	// gettingImages is the part of the time since it began that is no play's.
	gettingImages time.Duration
}

// NewCampaign starts a run. Nothing is played yet.
func NewCampaign(inc *Incident, o VerifyOptions) *Campaign {
	now := time.Now()
	return &Campaign{inc: inc, o: o, began: now, matrix: Matrix{
		Incident: inc.Name, Arms: o.Arms, Repeat: o.Repeat, Seed: o.Seed, Started: now, Command: o.Command,
		Unfinished: true,
	}, judged: map[string]PlayVerdict{}, images: map[string]bool{}}
}

// Play plays one arm in one round, counted from zero. An unknown play is played
// again, up to two times, and so is one whose faults could not be armed; all
// plays are part of the verdict, and the last one is returned. What was played
// before a resumption is not played again.
func (c *Campaign) Play(ctx context.Context, arm string, round int) (PlayVerdict, error) {
	n := max(0, slices.Index(c.o.Arms, arm))
	var last PlayVerdict
	for attempt := range 1 + retries {
		if ctx.Err() != nil {
			return last, interrupted(ctx)
		}
		name := fmt.Sprintf("%s-%d", arm, round+1)
		if attempt > 0 {
			name = fmt.Sprintf("%s-again-%d", name, attempt)
		}
		if before, ok := c.judged[name]; ok {
			if last = before; last.Outcome != Unknown {
				return last, nil
			}
			continue
		}
		plan, err := c.inc.Plan(arm, c.o.Seed+uint64(round*len(c.o.Arms)+n)+uint64(attempt)<<32)
		if err != nil {
			return last, err
		}
		if c.o.Playing != nil {
			c.o.Playing(plan, round, attempt)
		}
		c.setUp(ctx, plan)
		options := c.o.PlayOptions
		options.Run = fmt.Sprintf("%s-%d", options.Run, len(c.plays)+1)
		dir := filepath.Join(c.o.Dir, name)
		record, err := Play(ctx, c.inc, plan, dir, options)
		if record == nil {
			return last, err
		}
		last = JudgePlay(record)
		c.plays = append(c.plays, Judged{plan, last})
		c.judged[name] = last
		c.matrix.Plays = append(c.matrix.Plays, name)
		if c.o.Played != nil {
			c.o.Played(plan, last)
		}
		// The matrix as far as it came: a tool that dies leaves a run that can be judged.
		c.clock()
		if attempt < retries && errors.Is(err, ErrUnarmed) {
			err = nil // on a busy machine it may have been chance
		}
		if err := errors.Join(err, WriteJSON(filepath.Join(dir, VerdictFile), last), record.SaveTested(last), c.matrix.write(c.o.Dir)); err != nil {
			return last, err
		}
		if last.Outcome != Unknown {
			break
		}
	}
	return last, nil
}

// setUp gets the images that no play before needed, so that what is done once a
// machine does not count as a play's own time. Its error comes again in the
// play, which has a record for it.
func (c *Campaign) setUp(ctx context.Context, plan *Plan) {
	if c.o.Driver == topologies.Process {
		return // whose nodes run of what is there
	}
	var missing []string
	for _, n := range plan.nodes.Nodes {
		if !c.images[n.Image] {
			missing = append(missing, n.Image)
		}
	}
	if len(missing) == 0 {
		return
	}
	began := time.Now()
	o := topologies.Options{Binary: c.o.Binary, Proxied: plan.proxied()}
	if c.o.Observe != nil {
		o.Progress = func(step string) {
			c.o.Observe(Event{T: time.Since(began).Seconds(), At: time.Now(), Event: EventStarting, Detail: step})
		}
	}
	if _, err := topologies.EnsureImages(ctx, plan.nodes, o); err == nil {
		for _, image := range missing {
			c.images[image] = true
		}
	}
	c.gettingImages += time.Since(began)
	c.matrix.SetUp += time.Since(began).Seconds()
}

// End judges all plays together and saves the verdict beside them.
func (c *Campaign) End() (Verdict, error) {
	c.clock()
	c.matrix.Unfinished = false
	v := c.matrix.judge(c.plays, c.o.Dir)
	return v, errors.Join(c.matrix.write(c.o.Dir), WriteJSON(filepath.Join(c.o.Dir, VerdictFile), v))
}

func (c *Campaign) clock() {
	c.matrix.Seconds = c.before + (time.Since(c.began) - c.gettingImages).Seconds()
}

func (m Matrix) write(dir string) error { return WriteJSON(filepath.Join(dir, matrixFile), m) }

// judge weighs the plays and adds what the run cost.
func (m Matrix) judge(plays []Judged, dir string) Verdict {
	return m.told(JudgeIncident(plays, m.Repeat), plays, dir)
}

// told adds to a verdict what the run cost, and why it ended early.
func (m Matrix) told(v Verdict, plays []Judged, dir string) Verdict {
	v.Record = dir
	if m.Trouble != "" {
		v.Outcome = Worst(v.Outcome, Unknown)
		v.Reasons = append(v.Reasons, "not all arms were played: "+m.Trouble)
	}
	if m.Unfinished {
		v.Outcome = Worst(v.Outcome, Unknown)
		v.Reasons = append(v.Reasons, "the run was not ended: its tool was killed, or still plays")
	}
	if missing := m.missing(plays); len(missing) > 0 && m.Trouble == "" && !m.Unfinished {
		v.Outcome = Worst(v.Outcome, Unknown)
		v.Reasons = append(v.Reasons, missing...)
	}
	v.Timing.Total, v.Timing.SetUp = m.Seconds, m.SetUp
	for _, p := range plays {
		v.Timing.Phases += p.Verdict.Phases
		v.Timing.WorstOver = max(v.Timing.WorstOver, p.Verdict.Seconds-p.Verdict.Phases)
	}
	if v.Timing.Phases > 0 {
		v.Timing.Ratio = v.Timing.Total / v.Timing.Phases
	}
	return v
}

// Run is a folder of plays, read back: one play, or a matrix of them.
type Run struct {
	Matrix Matrix
	// Records are without their samples, which a run of many plays would fill
	// the memory with: [ReadRecord] reads those of one play again.
	Records []*Record
	Plays   []Judged
	Verdict Verdict
}

// ReadRun reads and judges a folder again: that of one play, which is judged
// alone, or that of a run with several. A play whose plan, or the incident beside it,
// was edited is refused with [ErrDamaged].
func ReadRun(dir string) (*Run, error) {
	if err := folder(dir); err != nil {
		return nil, err
	}
	run := &Run{}
	folders := []string{dir}
	several := false
	switch err := readJSON(filepath.Join(dir, matrixFile), &run.Matrix); {
	case err == nil:
		if err := run.Matrix.check(dir); err != nil {
			return nil, err
		}
		folders, several = nil, true
		for _, name := range run.Matrix.Plays {
			folders = append(folders, filepath.Join(dir, name))
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	var edited edits
	for _, folder := range folders {
		r, err := ReadRecord(folder)
		if err != nil {
			return nil, err
		}
		if several {
			if err := run.Matrix.holds(dir, filepath.Base(folder), r.Plan); err != nil {
				return nil, err
			}
		}
		if err := edited.refuse(r); err != nil {
			return nil, err
		}
		run.Records = append(run.Records, r)
		run.Plays = append(run.Plays, Judged{r.Plan, JudgePlay(r)})
		r.Samples = nil
	}
	if !several {
		r := run.Records[0]
		run.Matrix = Matrix{
			Incident: r.Plan.Incident, Arms: []string{r.Plan.Arm}, Repeat: 1, Seed: r.Plan.Seed,
			Started: r.Environment.Started, Command: r.Environment.Command, Seconds: r.Environment.Seconds,
		}
		run.Verdict = run.Matrix.told(JudgeAlone(run.Plays[0]), run.Plays, dir)
		return run, nil
	}
	if len(run.Records) > 0 {
		if err := errors.Join(copied(run.Records), run.Matrix.known(dir, run.Records[0])); err != nil {
			return nil, err
		}
	}
	run.Verdict = run.Matrix.judge(run.Plays, dir)
	return run, nil
}
