package replays

// Kinds of check; they say what a [Finding] is about.
const (
	KindSymptom   = "symptom"
	KindObjective = "objective"
	KindInvariant = "invariant"
	KindAlert     = "alert"
	KindClass     = "class"  // what kind of outage it is
	KindLadder    = "ladder" // how far a load rehearsal came
	KindDrift     = "drift"  // whether a configuration is the one that was tested
)

// Verdict is the outcome of an incident: of all arms that were played.
type Verdict struct {
	Incident   string       `json:"incident"`
	Title      string       `json:"title"`
	Outcome    Outcome      `json:"outcome"`
	Reasons    []string     `json:"reasons"` // why it is not a pass, worst first; empty for a pass
	Reproduced bool         `json:"reproduced"`
	Arms       []ArmVerdict `json:"arms"`
	Vacuous    []Vacuous    `json:"vacuous"`
	Record     string       `json:"record"`
	Timing     Timing       `json:"timing"`

	Combinations []Combination  `json:"combinations"` // every one of the causes combined; none where none is, only all of them were played, or one play is judged alone
	Sweeps       []SweepVerdict `json:"sweeps"`
}

// Timing says what the matrix cost, in seconds.
type Timing struct {
	SetUp     float64 `json:"set_up"`     // for getting images, once a machine
	Total     float64 `json:"total"`      // from the first play's start to the last one's end, without SetUp
	Phases    float64 `json:"phases"`     // sum of all phases, as far as they were played
	Ratio     float64 `json:"ratio"`      // Total / Phases; 0 where no phase was played
	WorstOver float64 `json:"worst_over"` // longest time of one play beyond its phases
}

// Vacuous is a check that came out the same in every arm: it proves nothing.
type Vacuous struct {
	Check string `json:"check"`
	Kind  string `json:"kind"`
	Held  bool   `json:"held"`
}

// Cell says whether an arm is an outage, and what says so.
type Cell struct {
	Arm string `json:"arm"`
	// Outage is whether at least one objective failed in any valid play of the arm;
	// null where that is not known of any.
	Outage *bool `json:"outage"`
	// DecidedBy is the objective that would turn it over first: of an outage the
	// one that is furthest from holding, since all that fail must hold again;
	// otherwise the one that is nearest to failing. Of several plays it is that of
	// the worst: the outage with the furthest one, else the play with the nearest.
	DecidedBy string   `json:"decided_by"`
	Phase     string   `json:"phase"`
	Got       string   `json:"got"`
	Want      string   `json:"want"`
	Margin    *float64 `json:"margin"`           // that distance, as in a Finding, never negative; null where it is not one number
	Reason    string   `json:"reason,omitempty"` // why it is not known
}

// Combination is the incident with some of the causes that are said to be needed
// together. Only with all of them should it be an outage.
type Combination struct {
	On []string `json:"on"`
	Cell
}

// SweepVerdict is what became of the steps of a sweep that were played.
type SweepVerdict struct {
	Name  string        `json:"name"`
	Steps []StepVerdict `json:"steps"`
}

// StepVerdict is what became of one step.
type StepVerdict struct {
	Step     string  `json:"step"`
	Expected bool    `json:"expected"` // whether the incident says that it is an outage
	Outcome  Outcome `json:"outcome"`  // of the arm
	Cell
}

// ArmVerdict is the outcome of one arm over all its plays. Findings, faults,
// validity, class and ladder are those of the play that decided the outcome (the
// worst one).
type ArmVerdict struct {
	Arm      string        `json:"arm"`
	Outcome  Outcome       `json:"outcome"`
	Expected string        `json:"expected"` // health, outage, or what the change is said to do
	Says     string        `json:"says"`
	Plays    int           `json:"plays"`
	Passed   int           `json:"passed"`
	Failed   int           `json:"failed"`
	Unknown  int           `json:"unknown"`
	Seconds  float64       `json:"seconds"` // of the deciding play
	Findings []Finding     `json:"findings"`
	Faults   []FaultTiming `json:"faults"`
	Validity []Gate        `json:"validity"`        // gates that did not hold
	Runs     []PlayVerdict `json:"runs"`            // every play, in order, unknown ones too
	Class    *Class        `json:"class,omitempty"` // of the deciding play; null where it is not looked for
	// Ladder is that of the deciding play; null where the incident has none.
	Ladder *LadderVerdict `json:"ladder,omitempty"`
}

// PlayVerdict is the outcome of one play.
type PlayVerdict struct {
	Arm      string        `json:"arm"`
	Outcome  Outcome       `json:"outcome"`
	Seed     uint64        `json:"seed"`
	Seconds  float64       `json:"seconds"` // from the play's start to its end
	Phases   float64       `json:"phases"`  // sum of its phases, as far as they were played, seconds
	Findings []Finding     `json:"findings"`
	Faults   []FaultTiming `json:"faults"`
	Validity []Gate        `json:"validity"` // gates that did not hold
	Record   string        `json:"record"`
	Class    *Class        `json:"class,omitempty"` // null where it is not looked for
	// Ladder is null where the incident has none.
	Ladder *LadderVerdict `json:"ladder,omitempty"`
}

// Finding is the outcome of one check in one phase of one play.
type Finding struct {
	Check    string  `json:"check"`
	Kind     string  `json:"kind"`
	Says     string  `json:"says"`
	Phase    string  `json:"phase"`
	Outcome  Outcome `json:"outcome"`  // whether held and expected agree
	Expected *bool   `json:"expected"` // null where this arm promises nothing
	Held     *bool   `json:"held"`     // null where it could not be seen
	Got      string  `json:"got"`
	Want     string  `json:"want"`
	Query    string  `json:"query"`
	Reason   string  `json:"reason,omitempty"` // why unknown: "no samples match …"
	// Margin is got's distance from the limit as a share of the limit (or, with
	// a limit of zero, the distance itself); negative where the check does not
	// hold. Null where either side is not one number.
	Margin *float64 `json:"margin"`
}

// FaultTiming is when a fault was scheduled, injected, seen in effect and
// undone, in seconds since the first phase began. Times that never came are
// null.
type FaultTiming struct {
	Name        string   `json:"name"`
	Kind        string   `json:"kind"`
	ScheduledAt float64  `json:"scheduled_at"`
	InjectedAt  *float64 `json:"injected_at"`
	InEffectAt  *float64 `json:"in_effect_at"`
	UndoneAt    *float64 `json:"undone_at"`
	GoneAt      *float64 `json:"gone_at"`
	Error       string   `json:"error,omitempty"`
}

// OutageClass is a kind of outage, told by what becomes of it once its trigger
// is gone and the load is what it was before. The words are those of "Metastable
// Failures in Distributed Systems" (HotOS 2021) and "Metastable Failures in the
// Wild" (OSDI 2022).
type OutageClass string

// The kinds of outage.
const (
	ClassNoFailure    OutageClass = "no-failure"    // goodput never fell
	ClassTriggerBound OutageClass = "trigger-bound" // it fell, and came back by itself
	ClassSlowRecovery OutageClass = "slow-recovery" // it is on its way back
	ClassMetastable   OutageClass = "metastable"    // it stays down, and what keeps it down is the work that the outage itself makes
	ClassPermanent    OutageClass = "permanent"     // it stays down, and a cut in load does not bring it back: something is broken
	ClassOverload     OutageClass = "overload"      // the load was too much before anything triggered
	ClassUnknown      OutageClass = "unknown"       // it could not be seen
)

// outageClasses are the kinds that a file may name.
var outageClasses = []string{
	string(ClassNoFailure), string(ClassTriggerBound), string(ClassSlowRecovery),
	string(ClassMetastable), string(ClassPermanent), string(ClassOverload),
}

// Class is the kind of an outage and what tells so.
type Class struct {
	Is       OutageClass `json:"is"`
	Evidence []string    `json:"evidence"` // sentences with figures
	// RecoveredAfter is in seconds from when the trigger was seen gone, by
	// readings over a second; null where nothing fell or nothing came back.
	RecoveredAfter *float64 `json:"recovered_after"`
	// Amplification is attempts for each request offered, in the last third of
	// the wait; null where attempts were not counted.
	Amplification *float64 `json:"amplification"`
	// Hysteresis is whether a push brought it back; null where none was needed
	// or made.
	Hysteresis *bool `json:"hysteresis"`
}

// Gate is a validity gate that did not hold: the play says nothing about the
// system, for this reason.
type Gate struct {
	Gate   string `json:"gate"` // fault-in-effect, load-on-time, load-complete, samples-complete, machine-quiet, nodes-alive, play-complete
	Reason string `json:"reason"`
}
