package suites_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"relapse/replays"
	"relapse/topologies"
)

// The tester is tested: incidents that are wrong on purpose must be caught.
var _ = Describe("a mutated incident is caught", Ordered, Label("smoke", "nightly", "mutations"), func() {
	const original = "account-service"
	var verdict func(ctx SpecContext, mutate func(dir string), arms ...string) replays.Verdict
	BeforeAll(func() {
		verdict = func(ctx SpecContext, mutate func(dir string), arms ...string) replays.Verdict {
			dir := copyIncident(original)
			mutate(dir)
			inc, err := replays.Find(dir)
			Expect(err).NotTo(HaveOccurred(), "the mutated incident must load: it is wrong, not malformed")
			o := options("mutated")
			o.Arms = arms
			v, err := replays.Verify(ctx, inc, o)
			Expect(err).NotTo(HaveOccurred(), "the rig failed")
			return v
		}
	})

	It("without its trigger it is not reproduced", func(ctx SpecContext) {
		// The cause that takes the trigger away and the fault itself go with it:
		// a fault that is held nowhere would be refused before it is played.
		v := verdict(ctx, func(dir string) {
			replace("incident.yaml", "faults: [more-token-checks]}", "faults: []}")(dir)
			cut("incident.yaml", `(?m)^  more-token-checks:\n(    .*\n)+`)(dir)
			cut("incident.yaml", `(?m)^  load:\n(    .*\n)+`)(dir)
		}, "healthy", "unfixed")
		Expect(v.Reproduced).To(BeFalse())
		Expect(v.Outcome).To(Equal(replays.Fail), strings.Join(v.Reasons, "\n"))
	}, SpecTimeout(playWithin))

	It("a fix whose overlay changes nothing does not hold", func(ctx SpecContext) {
		v := verdict(ctx, func(dir string) {
			overlay := filepath.Join(dir, original, "overlays", "route-limits.yaml")
			Expect(os.WriteFile(overlay, []byte("services: {}\n"), 0o644)).To(Succeed())
		}, "fix-route-limits")
		Expect(v.Arms[0].Outcome).To(Equal(replays.Fail), "the fix changes nothing and still holds")
	}, SpecTimeout(playWithin))

	It("a check that always holds is vacuous", func(ctx SpecContext) {
		v := verdict(ctx, replace("incident.yaml", "outcome=\"ok\"}[$phase])) / sum(rate(relapse_offered_total{op=\"logout\"}[$phase])) >= 0.9",
			"outcome=\"ok\"}[$phase])) / sum(rate(relapse_offered_total{op=\"logout\"}[$phase])) >= 0"), "healthy", "unfixed")
		Expect(v.Outcome).To(Equal(replays.Fail))
		Expect(v.Vacuous).To(ContainElement(HaveField("Check", "logout-works")))
	}, SpecTimeout(playWithin))
})

// copyIncident lays an incident of the library and its topology into a folder,
// as a user's own would lie.
func copyIncident(name string) string {
	dir, err := os.MkdirTemp("", "relapse-mutated-"+time.Now().Format("150405")+"-*")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(os.RemoveAll, dir)
	Expect(os.CopyFS(dir, os.DirFS(filepath.Join("..", "replays", name)))).To(Succeed())
	topology, err := fs.Sub(topologies.Library(), name)
	Expect(err).NotTo(HaveOccurred())
	Expect(os.CopyFS(filepath.Join(dir, name), topology)).To(Succeed())
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

// cut takes out what a pattern matches, which must be there exactly once.
func cut(file, pattern string) func(dir string) {
	return func(dir string) {
		path := filepath.Join(dir, file)
		src, err := os.ReadFile(path)
		Expect(err).NotTo(HaveOccurred())
		found := regexp.MustCompile(pattern).FindAllString(string(src), -1)
		Expect(found).To(HaveLen(1), "%s in %s", pattern, file)
		Expect(os.WriteFile(path, []byte(strings.Replace(string(src), found[0], "", 1)), 0o644)).To(Succeed())
	}
}
