package suites_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"relapse/replays"
	"relapse/topologies"
)

// The tester is tested: incidents that are wrong on purpose must be caught. What needs
// no play is seen before each change lands.
var _ = Describe("a mutated incident is caught", Ordered, Label("nightly", "mutations"), func() {
	const original = "account-service"
	verdict := func(ctx SpecContext, mutate func(dir string), arms ...string) replays.Verdict {
		return mutated(ctx, original, original, mutate, arms...)
	}

	It("without its trigger it is refused before anything is played", Label("smoke"), func() {
		dir := copyIncident(original, original)
		replace("incident.yaml", "faults: [more-token-checks]}", "faults: []}")(dir)
		_, err := replays.Find(dir)
		var refused *topologies.FileError
		Expect(errors.As(err, &refused)).To(BeTrue(), "%v", err)
	})

	It("with a trigger that has no force it is not reproduced", func(ctx SpecContext) {
		v := verdict(ctx, replace("incident.yaml", "times: 12.5", "times: 1.2"), "healthy", "unfixed")
		Expect(v.Reproduced).To(BeFalse())
		Expect(v.Outcome).To(Equal(replays.Fail), strings.Join(v.Reasons, "\n"))
	}, SpecTimeout(playWithin))

	emptied := func(with string) func(dir string) {
		return func(dir string) {
			overlay := filepath.Join(dir, original, "overlays", "route-limits.yaml")
			Expect(os.WriteFile(overlay, []byte(with), 0o644)).To(Succeed())
		}
	}

	It("a fix whose overlay is empty is refused before anything is played", Label("smoke"), func() {
		dir := copyIncident(original, original)
		emptied("services: {}\n")(dir)
		_, err := replays.Find(dir)
		var refused *topologies.FileError
		Expect(errors.As(err, &refused)).To(BeTrue(), "%v", err)
	})

	It("a fix whose overlay changes nothing that matters does not hold", func(ctx SpecContext) {
		v := verdict(ctx, emptied("configs:\n  cache:\n    content: |\n      # as it was\n      server memcached:11211;\n"), "fix-route-limits")
		Expect(v.Arms[0].Outcome).To(Equal(replays.Fail), "the fix changes nothing and still holds")
	}, SpecTimeout(playWithin))
})

// A build of matchmaking that loses servers, hands them out twice or moves them
// without end must be caught by the history, whatever players notice of it.
var _ = Describe("a broken rebalancer is caught", Label("nightly", "mutations"), func() {
	withOverlays := func(names string) func(dir string) {
		return replace("incident.yaml", "topology: mms\n", "topology: mms\noverlays: ["+names+"]\n")
	}
	for _, broken := range []struct {
		how    string
		mutate func(dir string)
		arm    string
		by     string // the invariant that sees it
	}{
		{"it forgets what it gave away and is not told of", withOverlays("defect-drop-on-timeout"), "fix-rebalance-under-divided", "nothing-lost"},
		{"both sides hand out what is on its way", withOverlays("defect-before-ack, defect-no-fence"), "fix-rebalance-under-slow-link", "nothing-twice"},
		{"it takes a message that arrives twice for two", withOverlays("defect-forget-duplicates"), "fix-rebalance-under-lost-messages", "nothing-twice"},
		{"it moves without a bound", replace("mms/overlays/rebalance.yaml", "every: 500ms\n", "every: 500ms\n      defect: unbounded\n"), "fix-rebalance", "moves-bounded"},
	} {
		It(broken.how, func(ctx SpecContext) {
			caught(mutated(ctx, "playground-mms", "mms", broken.mutate, broken.arm), broken.by)
		}, SpecTimeout(playWithin))
	}
})

// A build of presence that claims, works or marks otherwise than by the last claim must
// be caught where a fault has partitions change hands.
var _ = Describe("broken background work is caught", Label("nightly", "mutations"), func() {
	partitions := func(setting string) func(dir string) {
		return replace("valorant/overlays/partitions.yaml", "partitioned: true\n", "partitioned: true\n      "+setting+"\n")
	}
	for _, broken := range []struct {
		how    string
		mutate func(dir string)
		arm    string
		by     string // the check that sees it
	}{
		{"marks are written whatever the number of the claim", replace("valorant/overlays/slow-work.yaml", "work: 30ms\n", "work: 30ms\n      fenced: false\n"), "fix-partitions-under-owner-sleeps", "handled-once"},
		{"claims after a loss have numbers that there were before", partitions("rising: false"), "fix-partitions-under-claims-lost", "handled-once"},
		{"claims last for an hour", partitions("lease: 1h"), "fix-partitions-under-owner-dies", "handled-once"},
		{"an owner goes on when its lease is over", partitions("ending: false"), "fix-partitions-under-cut-off", "one-owner"},
		{"instances never have enough", partitions("greedy: true"), "fix-partitions-under-newcomer", "moves-bounded"},
	} {
		It(broken.how, func(ctx SpecContext) {
			caught(mutated(ctx, "valorant-launch", "valorant", broken.mutate, broken.arm), broken.by)
		}, SpecTimeout(playWithin))
	}
})

// caught holds that a broken build's one arm fails, and that a check says so.
func caught(v replays.Verdict, by string) {
	GinkgoHelper()
	Expect(v.Arms).To(HaveLen(1))
	Expect(v.Arms[0].Outcome).To(Equal(replays.Fail), "the build is broken and nothing shows it")
	Expect(v.Arms[0].Findings).To(ContainElement(And(HaveField("Check", by), HaveField("Outcome", replays.Fail))), "%v", v.Reasons)
}

// mutated plays arms of an incident of the library that was made wrong.
func mutated(ctx SpecContext, incident, topology string, mutate func(dir string), arms ...string) replays.Verdict {
	dir := copyIncident(incident, topology)
	mutate(dir)
	inc, err := replays.Find(dir)
	Expect(err).NotTo(HaveOccurred(), "the mutated incident must load: it is wrong, not malformed")
	o := options("mutated")
	o.Arms = arms
	v, err := replays.Verify(ctx, inc, o)
	Expect(err).NotTo(HaveOccurred(), "the rig failed")
	expectNothingLeft(ctx, o.Run)
	return v
}

// copyIncident lays an incident of the library and its topology into a folder,
// as a user's own would lie.
func copyIncident(incident, topology string) string {
	dir, err := os.MkdirTemp("", "relapse-mutated-"+time.Now().Format("150405")+"-*")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(os.RemoveAll, dir)
	Expect(os.CopyFS(dir, os.DirFS(filepath.Join("..", "replays", incident)))).To(Succeed())
	files, err := fs.Sub(topologies.Library(), topology)
	Expect(err).NotTo(HaveOccurred())
	Expect(os.CopyFS(filepath.Join(dir, topology), files)).To(Succeed())
	return dir
}

// replace edits one file; text that is not there exactly once would leave the
// incident as it was and the spec without a meaning.
func replace(file, old, with string) func(dir string) {
	return func(dir string) {
		path := filepath.Join(dir, file)
		src, err := os.ReadFile(path)
		Expect(err).NotTo(HaveOccurred())
		Expect(strings.Count(string(src), old)).To(Equal(1), "%s in %s", old, file)
		Expect(os.WriteFile(path, []byte(strings.Replace(string(src), old, with, 1)), 0o644)).To(Succeed())
	}
}
