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

	It("without its trigger it is refused before anything is played", func() {
		dir := copyIncident(original)
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

	It("a fix whose overlay is empty is refused before anything is played", func() {
		dir := copyIncident(original)
		emptied("services: {}\n")(dir)
		_, err := replays.Find(dir)
		var refused *topologies.FileError
		Expect(errors.As(err, &refused)).To(BeTrue(), "%v", err)
	})

	It("a fix whose overlay changes nothing that matters does not hold", func(ctx SpecContext) {
		v := verdict(ctx, emptied("configs:\n  cache:\n    content: |\n      # as it was\n      server memcached:11211;\n"), "fix-route-limits")
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
