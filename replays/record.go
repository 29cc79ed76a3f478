package replays

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
	"unicode/utf8"

	"relapse/faults"
	"relapse/replays/samples"
	"relapse/topologies"
)

// Names of the files in a record.
const (
	planFile        = "plan.json"
	eventsFile      = "events.ndjson"
	samplesFile     = "samples.om.gz"
	environmentFile = "environment.json"
	VerdictFile     = "verdict.json"
	incidentFolder  = "incident"
	logsFolder      = "logs"
)

// Record is what a play leaves: a folder that can be judged and reported on its
// own, on another machine, years later.
type Record struct {
	Dir         string
	Plan        *Plan
	Events      []Event
	Samples     *samples.Store
	Rules       *samples.Rules // nil where the incident has none
	Environment Environment
	Targets     []TargetHealth
}

// Event is something that happened during a play, on the play's own clock.
type Event struct {
	T      float64   `json:"t"` // seconds since the play started, monotonic
	At     time.Time `json:"at"`
	Event  string    `json:"event"`
	Phase  string    `json:"phase,omitempty"`
	Fault  string    `json:"fault,omitempty"`
	Step   string    `json:"step,omitempty"`
	Node   string    `json:"node,omitempty"`
	Detail string    `json:"detail,omitempty"`
}

// The events of a play.
const (
	EventStarting      = "starting"       // detail: what is being set up
	EventStarted       = "started"        // every node is ready
	EventPhase         = "phase"          // a phase begins
	EventPhasesEnd     = "phases-end"     // the last phase ended
	EventPhasesCut     = "phases-cut"     // the phases ended before the last one's end: the rig failed, or somebody interrupted
	EventFault         = "fault"          // a fault took a step, see faults.Step
	EventNodeDead      = "node-dead"      // a node is found dead at the end
	EventNodeRestarted = "node-restarted" // the engine started a node again, by its restart policy; detail: how often
	EventStopped       = "stopped"        // every node is gone
	EventKept          = "kept"           // the nodes still run, as was asked for
	EventTrouble       = "trouble"        // the rig failed, or somebody interrupted
)

// Environment is where and with what a play ran.
type Environment struct {
	Run     string                `json:"run"`
	Started time.Time             `json:"started"`
	Seconds float64               `json:"seconds"` // from the play's start until nothing of it was left
	Tool    Tool                  `json:"tool"`
	Command []string              `json:"command"`
	Machine Machine               `json:"machine"`
	Images  []topologies.ImageUse `json:"images"`
	Targets []TargetHealth        `json:"targets"`
	// Written are the digests of the plan and of the incident's files, by path in the
	// record: an edit shows, also to a build that plans otherwise.
	Written map[string]string `json:"written,omitempty"`
}

// Tool is the build that played.
type Tool struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Dirty   bool   `json:"dirty"`
	Go      string `json:"go"`
}

// Machine is the machine that played.
type Machine struct {
	OS     string `json:"os"`
	Kernel string `json:"kernel"`
	CPU    string `json:"cpu"`
	CPUs   int    `json:"cpus"`
	Memory uint64 `json:"memory"`           // bytes
	Driver string `json:"driver,omitempty"` // what ran the nodes: docker or process; "" in older records, docker
	Engine string `json:"engine"`
	Cgroup string `json:"cgroup"`
	// CPUWeight is how many host processes all nodes together weighed against.
	CPUWeight int `json:"cpu_weight,omitempty"`
}

// TargetHealth says how well a node could be measured between the first phase's
// start and the last one's end; times in seconds.
type TargetHealth struct {
	Node            string  `json:"node"`
	Kind            string  `json:"kind"`
	Rounds          int     `json:"rounds"`
	Failed          int     `json:"failed"`     // asked, and no answer
	Missed          int     `json:"missed"`     // not asked in time
	WorstGap        float64 `json:"worst_gap"`  // longest time without an answer
	WorstMiss       float64 `json:"worst_miss"` // longest time without being asked
	GapsAreEvidence bool    `json:"gaps_are_evidence"`
}

// stepFailed is the step of a fault that did not do what it should; the
// event's detail says what.
const stepFailed faults.Step = "failed"

// ErrNoRecord is wrapped by [ReadRecord] where a folder is no record of a play.
var ErrNoRecord = errors.New("not a record of a play")

// ReadRecord reads a record from its folder. Samples that are missing, as after
// a crash, leave an empty store: the judge then says unknown. Whether the plan is the
// one that was played [ReadRun] asks.
func ReadRecord(dir string) (*Record, error) {
	r := &Record{Dir: dir, Plan: new(Plan), Samples: samples.NewStore()}
	if err := folder(dir); err != nil {
		return nil, err
	}
	if err := readJSON(filepath.Join(dir, planFile), r.Plan); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s: %w: it has no %s", dir, ErrNoRecord, planFile)
		}
		return nil, err
	}
	if err := r.Plan.check(); err != nil {
		return nil, damaged(filepath.Join(dir, planFile), "%w", err)
	}
	if err := r.readEvents(); err != nil {
		return nil, err
	}
	if err := readJSON(filepath.Join(dir, environmentFile), &r.Environment); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := r.Environment.form(); err != nil {
		return nil, damaged(filepath.Join(dir, environmentFile), "%w", err)
	}
	r.Targets = r.Environment.Targets
	if err := r.readSamples(); err != nil {
		return nil, err
	}
	return r, r.readRules()
}

// folder refuses what is no folder.
func folder(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: %w: there is no such folder", dir, ErrNoRecord)
	case err != nil:
		return fmt.Errorf("%s: %w: %w", dir, ErrNoRecord, err)
	case !info.IsDir():
		return fmt.Errorf("%s: %w: it is no folder; name the one that a play or a run has left", dir, ErrNoRecord)
	}
	return nil
}

// check refuses a plan that no play can have had.
func (p *Plan) check() error {
	switch {
	case p.Incident == "":
		return errors.New("it names no incident")
	case p.Arm == "":
		return errors.New("it names no arm")
	case len(p.Phases) == 0:
		return errors.New("it has no phases")
	}
	for _, phase := range p.Phases {
		if phase.End <= phase.Start {
			return fmt.Errorf("phase %s ends at %g s and begins at %g s", phase.Name, phase.End, phase.Start)
		}
	}
	return p.form()
}

// OpenRegular opens a file of a record. What is no regular file is refused: a pipe
// would be waited for.
func OpenRegular(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err != nil { // such as a link that leads to itself
		return nil, damaged(path, "it cannot be opened: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, damaged(path, "it is no regular file")
	}
	return os.Open(path)
}

// Bounds of a record's files, far above what plays leave. What is beyond was not left
// by one, and would fill the memory.
const (
	mostBytes    = 16 << 20  // of a file that is read at once
	mostJournal  = 256 << 20 // of the journal
	longestEvent = 16 << 20  // of a line of it: a detail may quote much of a node's log
)

func readRegular(path string) ([]byte, error) {
	f, err := OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, mostBytes+1))
	if err == nil && len(b) > mostBytes {
		return nil, damaged(path, "it has more than %d MiB", mostBytes>>20)
	}
	return b, err
}

func (r *Record) readEvents() error {
	path := filepath.Join(r.Dir, eventsFile)
	f, err := OpenRegular(path)
	if errors.Is(err, fs.ErrNotExist) {
		return damaged(path, "it is missing: %w", err)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > mostJournal {
		return damaged(path, "it has more than %d MiB", mostJournal>>20)
	}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, longestEvent)
	var bad error
	last := 0.0
	for n := 1; lines.Scan(); n++ {
		// A crash may cut the last line short; what came before stands.
		if bad != nil {
			return bad
		}
		var e Event
		err := decodeJSON(lines.Bytes(), &e)
		at := fmt.Sprintf("%s:%d", path, n)
		switch {
		case err != nil:
			bad = damaged(at, "an event that is no last line cannot be read: %w", err)
			continue
		case e.Event == "":
			return damaged(at, "this line names no event")
		case e.T < last:
			return damaged(at, "event %s is of %g s, and what is before it of %g s", e.Event, e.T, last)
		case e.At.Year() < 1970 || e.At.Year() > 2200:
			return damaged(at, "event %s is of the year %d", e.Event, e.At.Year())
		}
		last = e.T
		r.Events = append(r.Events, e)
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return damaged(path, "a line of it is longer than %d MiB: %w", longestEvent>>20, err)
	case err != nil:
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

func (r *Record) readSamples() error {
	path := filepath.Join(r.Dir, samplesFile)
	f, err := OpenRegular(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return damaged(path, "it cannot be unpacked: %w", err)
	}
	store, err := samples.Read(z)
	if err != nil {
		return damaged(path, "its samples cannot be read: %w", err)
	}
	r.Samples = store
	return nil
}

// readRules reads the rules alone: a run of many plays is judged without
// loading its incident once for each.
func (r *Record) readRules() error {
	if r.Plan.Rules == "" {
		return nil
	}
	path := filepath.Join(r.Dir, incidentFolder, filepath.FromSlash(r.Plan.Rules))
	src, err := readRegular(path)
	if errors.Is(err, fs.ErrNotExist) {
		return damaged(path, "its alert rules are missing: %w", err)
	}
	if err != nil {
		return err
	}
	if r.Rules, err = samples.ParseRules(src); err != nil {
		return damaged(path, "its alert rules cannot be read: %w", err)
	}
	return nil
}

// Incident reads the incident as it was when the play was made.
func (r *Record) Incident() (*Incident, error) {
	dir := filepath.Join(r.Dir, incidentFolder)
	inc, err := Load(folderFS(dir), ".")
	if bad := (*topologies.FileError)(nil); err != nil && !errors.As(err, &bad) {
		return nil, damaged(dir, "the incident of the play cannot be read: %w", err)
	}
	return inc, err
}

// Logs gives the paths of the nodes' logs, by node.
func (r *Record) Logs() map[string]string {
	out := map[string]string{}
	paths, _ := filepath.Glob(filepath.Join(r.Dir, logsFolder, "*.log"))
	for _, p := range paths {
		name := filepath.Base(p)
		out[name[:len(name)-len(".log")]] = p
	}
	return out
}

// Origin is when the first phase began; false if none did.
func (r *Record) Origin() (time.Time, bool) {
	for _, e := range r.Events {
		if e.Event == EventPhase {
			return e.At, true
		}
	}
	return time.Time{}, false
}

// played is how much of its phases a play went through, in seconds. A journal
// without their end, as of a tool that was killed, counts as far as the last
// thing that happened to a phase or a fault.
func (r *Record) played() float64 {
	first := slices.IndexFunc(r.Events, func(e Event) bool { return e.Event == EventPhase })
	if first < 0 {
		return 0
	}
	origin := r.Events[first].T
	end := origin
	for _, e := range r.Events {
		switch e.Event {
		case EventPhasesEnd:
			return r.Plan.Length()
		case EventPhasesCut:
			return min(e.T-origin, r.Plan.Length())
		case EventPhase, EventFault:
			end = max(end, e.T)
		}
	}
	return min(end-origin, r.Plan.Length())
}

// ending says why a play ended early, where it says so itself.
func (r *Record) ending() string {
	for _, e := range slices.Backward(r.Events) {
		if e.Event == EventTrouble {
			return ": " + e.Detail
		}
	}
	return ""
}

// faultTimings gathers each planned fault's steps, in seconds since the first
// phase began.
func (r *Record) faultTimings() []FaultTiming {
	origin := 0.0
	for _, e := range r.Events {
		if e.Event == EventPhase {
			origin = e.T
			break
		}
	}
	out := []FaultTiming{}
	for _, f := range r.Plan.Faults {
		t := FaultTiming{Name: f.Name, Kind: f.Kind, ScheduledAt: f.Start}
		for _, e := range r.Events {
			if e.Event != EventFault || e.Fault != f.Name {
				continue
			}
			at := e.T - origin
			switch faults.Step(e.Step) {
			case faults.Injected:
				t.InjectedAt = &at
			case faults.InEffect:
				t.InEffectAt = &at
			case faults.Undone:
				t.UndoneAt = &at
			case faults.Gone:
				t.GoneAt = &at
			case stepFailed:
				t.Error = e.Detail
			}
		}
		out = append(out, t)
	}
	return out
}

func readJSON(path string, into any) error {
	b, err := readRegular(path)
	if err != nil {
		return err
	}
	if err := decodeJSON(b, into); err != nil {
		return damaged(path, "it is no whole JSON%s: %w", jsonPlace(b, err), err)
	}
	return nil
}

// decodeJSON refuses what the decoder would mend in silence: bytes that are no text,
// and of a key that is there twice the first one.
func decodeJSON(b []byte, into any) error {
	if !utf8.Valid(b) {
		return errors.New("it is no UTF-8 text")
	}
	if err := json.Unmarshal(b, into); err != nil {
		return err
	}
	if key, twice := keyTwice(json.NewDecoder(bytes.NewReader(b))); twice {
		return fmt.Errorf("key %q is there twice", key)
	}
	return nil
}

// keyTwice finds a key that one object of a value has twice. The value is whole.
func keyTwice(d *json.Decoder) (key string, twice bool) {
	token, err := d.Token()
	if err != nil {
		return "", false
	}
	seen := map[string]bool{}
	for token == json.Delim('{') || token == json.Delim('[') {
		if !d.More() {
			if _, err := d.Token(); err != nil { // the bracket that closes it
				return "", false
			}
			break
		}
		if token == json.Delim('{') {
			name, err := d.Token()
			key, isText := name.(string)
			if err != nil || !isText {
				return "", false
			}
			if seen[key] {
				return key, true
			}
			seen[key] = true
		}
		if key, twice := keyTwice(d); twice {
			return key, true
		}
	}
	return "", false
}

// jsonPlace says where an error of the decoder is.
func jsonPlace(b []byte, err error) string {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	offset := int64(0) // bytes read before the error
	switch {
	case errors.As(err, &syntax):
		offset = syntax.Offset
	case errors.As(err, &kind):
		offset = kind.Offset
	}
	if offset < 1 || offset > int64(len(b)) {
		return ""
	}
	read := b[:offset]
	column := utf8.RuneCount(read[bytes.LastIndexByte(read[:offset-1], '\n')+1:])
	return fmt.Sprintf(", by line %d, column %d", bytes.Count(read[:offset-1], []byte("\n"))+1, column)
}

// WriteJSON writes a file of the record, readable for people too. It has its name once
// it is whole: a tool that is killed, or a disk that is full, leaves no half of one,
// which would make all of the record unreadable.
func WriteJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	part := path + ".part"
	err = os.WriteFile(part, append(b, '\n'), 0o644)
	if err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		_ = os.Remove(part)
	}
	return err
}
