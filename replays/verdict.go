package replays

// Kinds of check; they say what a [Finding] is about.
const (
	KindSymptom   = "symptom"
	KindObjective = "objective"
	KindInvariant = "invariant"
	KindAlert     = "alert"
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
}

// Timing says what the matrix cost, in seconds.
type Timing struct {
	SetUp     float64 `json:"set_up"`     // for getting images, once a machine
	Total     float64 `json:"total"`      // from the first play's start to the last one's end, without SetUp
	Phases    float64 `json:"phases"`     // sum of all phases played
	Ratio     float64 `json:"ratio"`      // Total / Phases
	WorstOver float64 `json:"worst_over"` // longest time of one play beyond its phases
}

// Vacuous is a check that came out the same in every arm: it proves nothing.
type Vacuous struct {
	Check string `json:"check"`
	Kind  string `json:"kind"`
	Held  bool   `json:"held"`
}

// ArmVerdict is the outcome of one arm over all its plays. Findings, faults and
// validity are those of the play that decided the outcome (the worst one).
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
	Validity []Gate        `json:"validity"` // gates that did not hold
	Runs     []PlayVerdict `json:"runs"`     // every play, in order, unknown ones too
}

// PlayVerdict is the outcome of one play.
type PlayVerdict struct {
	Arm      string        `json:"arm"`
	Outcome  Outcome       `json:"outcome"`
	Seed     uint64        `json:"seed"`
	Seconds  float64       `json:"seconds"` // from the play's start to its end
	Phases   float64       `json:"phases"`  // sum of its phases, seconds
	Findings []Finding     `json:"findings"`
	Faults   []FaultTiming `json:"faults"`
	Validity []Gate        `json:"validity"` // gates that did not hold
	Record   string        `json:"record"`
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

// Gate is a validity gate that did not hold: the play says nothing about the
// system, for this reason.
type Gate struct {
	Gate   string `json:"gate"` // fault-in-effect, load-on-time, load-complete, samples-complete, machine-quiet, nodes-alive, play-complete
	Reason string `json:"reason"`
}
