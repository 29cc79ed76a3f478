package suites_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"relapse/replays"
	"relapse/reports"
	"relapse/topologies"
)

// playWithin bounds one arm, its replays after an unknown outcome included.
const playWithin = 5 * time.Minute

var _ = Describe("incident", func() {
	for _, name := range replays.LibraryNames() {
		inc, err := replays.Find(name)
		if err != nil {
			// Ginkgo builds its tree before any spec runs: a spec tells it.
			It("can be loaded: "+name, Label("smoke", "nightly"), func() { Expect(err).NotTo(HaveOccurred()) })
			continue
		}
		Describe(name, Ordered, ContinueOnFailure, Label(name), func() { armsOf(inc) })
	}
})

// armsOf makes a spec of every arm, and those that no query can state.
func armsOf(inc *replays.Incident) {
	var campaign *replays.Campaign
	var dir, run string
	played := map[string]replays.PlayVerdict{}
	smoke := smokeArms(inc)
	labelsOf := func(arm string) Labels {
		if smoke[arm] {
			return Label("nightly", "smoke")
		}
		return Label("nightly")
	}
	BeforeAll(func() {
		// An engine without hosts would read as a rig that failed, in every arm.
		if inc.NeedsHosts() {
			topologies.RequireHosts(GinkgoT())
		}
		o := options(inc.Name)
		// Of an arm that no spec plays the run would lack a play.
		for _, arm := range inc.Arms() {
			if append(labelsOf(arm), inc.Name).MatchesLabelFilter(GinkgoLabelFilter()) {
				o.Arms = append(o.Arms, arm)
			}
		}
		dir, run = o.Dir, o.Run
		campaign = replays.NewCampaign(inc, o)
	})
	for _, arm := range inc.Arms() {
		It("comes out as its file says: "+arm, labelsOf(arm), func(ctx SpecContext) {
			verdict, err := campaign.Play(ctx, arm, 0)
			Expect(err).NotTo(HaveOccurred(), "the rig failed")
			played[arm] = verdict
			AddReportEntry("record", verdict.Record)
			Expect(verdict.Outcome).To(Equal(replays.Pass), explain(verdict))
		}, SpecTimeout(playWithin))
	}
	It("is judged the same from disk alone", Label("smoke", "nightly"), func() {
		Expect(played).NotTo(BeEmpty(), "nothing was played")
		for arm, verdict := range played {
			record, err := replays.ReadRecord(verdict.Record)
			Expect(err).NotTo(HaveOccurred())
			again := replays.JudgePlay(record)
			Expect(again.Outcome).To(Equal(verdict.Outcome), arm)
			Expect(again.Findings).To(Equal(verdict.Findings), arm)
		}
	})
	It("fails where a check always holds", Label("smoke", "nightly"), func() {
		Expect(played).To(And(HaveKey("healthy"), HaveKey("unfixed")))
		id, verdict, err := alwaysHolding(played["healthy"].Record, played["unfixed"].Record)
		Expect(err).NotTo(HaveOccurred())
		Expect(isVacuous(verdict, id)).To(BeTrue(), "%s is no vacuous check: %s", id, strings.Join(verdict.Reasons, "\n"))
	})
	It("leaves nothing behind", Label("smoke", "nightly"), func(ctx SpecContext) {
		expectNothingLeft(ctx, run)
	}, SpecTimeout(time.Minute))
	AfterAll(func() {
		if len(played) == 0 {
			return
		}
		verdict, err := campaign.End()
		Expect(err).NotTo(HaveOccurred())
		writeReports(dir)
		Expect(verdict.Reproduced).To(BeTrue(), strings.Join(verdict.Reasons, "\n"))
		// An objective may come out otherwise in an arm that was not played: of chosen
		// arms that is no reason to doubt it. A symptom is seen or not in these.
		proveNothing := slices.DeleteFunc(slices.Clone(verdict.Vacuous), func(c replays.Vacuous) bool {
			return len(played) < len(inc.Arms()) && c.Kind == replays.KindObjective
		})
		Expect(proveNothing).To(BeEmpty(), "checks that prove nothing")
		Expect(verdict.Reasons).To(HaveLen(len(verdict.Vacuous)-len(proveNothing)), strings.Join(verdict.Reasons, "\n"))
	})
}

// shortPlay is how long the phases of an incident may be whose fix is played before
// anything lands: all that lands waits for it. Every fix is played every night.
const shortPlay = 30 * time.Second

// smokeArms are enough to see an incident and, where that is short, one way out of it.
func smokeArms(inc *replays.Incident) map[string]bool {
	arms := map[string]bool{"healthy": true, "unfixed": true}
	var length time.Duration
	for _, p := range inc.Phases {
		length += p.Lasts
	}
	if length > shortPlay {
		return arms
	}
	for _, f := range inc.Fixes {
		// The first fix that leaves nothing, else the first.
		if len(arms) == 2 || len(f.Value.Leaves) == 0 {
			delete(arms, "fix-"+inc.Fixes[0].Name)
			arms["fix-"+f.Name] = true
		}
		if len(f.Value.Leaves) == 0 {
			break
		}
	}
	return arms
}

func writeReports(dir string) {
	run, err := replays.ReadRun(dir)
	Expect(err).NotTo(HaveOccurred())
	report, err := reports.FromRun(run)
	Expect(err).NotTo(HaveOccurred())
	var names []string
	for _, f := range reports.Formats() {
		names = append(names, f.Name)
	}
	_, err = reports.Write(dir, report, names...)
	Expect(err).NotTo(HaveOccurred())
}

// explain tells a failed arm in the words of its record.
func explain(v replays.PlayVerdict) string {
	var b strings.Builder
	fmt.Fprintf(&b, "arm %s: %s (record %s)\n", v.Arm, v.Outcome, v.Record)
	for _, g := range v.Validity {
		fmt.Fprintf(&b, "  gate %s: %s\n", g.Gate, g.Reason)
	}
	for _, f := range v.Findings {
		if f.Expected == nil || f.Outcome == replays.Pass {
			continue
		}
		fmt.Fprintf(&b, "  %s during %s: got %s, want %s (should hold: %t) %s\n", f.Check, f.Phase, f.Got, f.Want, *f.Expected, f.Reason)
	}
	return b.String()
}
