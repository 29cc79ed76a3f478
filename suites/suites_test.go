// Package suites_test says what runs, and when. Every incident of the library
// is a container of specs, one spec an arm; the arms come from the incident's
// file, so a new incident needs no code here.
//
//	go test ./suites -ginkgo.label-filter=smoke            healthy, unfixed, a fix where plays are short
//	go test ./suites -ginkgo.label-filter=nightly          every arm
//	go test ./suites -ginkgo.label-filter=account-service  every arm of one incident
//	go test ./suites -ginkgo.label-filter=crash            plays that are broken off at random moments
//
// Without a filter nothing is played, except where CI=true: `go test ./...` is
// for every desk, and plays of several packages would disturb each other.
package suites_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"relapse/replays"
	"relapse/reports"
	"relapse/topologies"
)

func TestIncidents(t *testing.T) {
	RegisterFailHandler(Fail)
	suite, reporter := GinkgoConfiguration()
	if suite.LabelFilter == "" {
		if os.Getenv("CI") != "true" {
			t.Skip("no -ginkgo.label-filter was given, so nothing is played")
		}
		suite.LabelFilter = "smoke"
	}
	topologies.RequireEngine(t)
	// A play is never cut short while it undoes faults and stops nodes.
	suite.GracePeriod = time.Minute
	reporter.JUnitReport = filepath.Join(runs(), "junit.xml")
	RunSpecs(t, "incidents", suite, reporter)
}

// runs is the folder for all records: one that is kept, since CI uploads it.
func runs() string {
	dir, err := filepath.Abs(filepath.Join("..", "runs"))
	Expect(err).NotTo(HaveOccurred())
	return dir
}

// binary is the tool as it runs inside the containers.
var binary string

var _ = SynchronizedBeforeSuite(func() {
	path, err := filepath.Abs(filepath.Join("..", "bin", "relapse"))
	Expect(err).NotTo(HaveOccurred())
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, "..")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(out))
	unlock, err = replays.Lock()
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { unlock() })
	binary = path
}, func() {})

// unlock lets go of the machine's lock, which the suites hold.
var unlock func()

// letOthersPlay lets go of the lock for the specs of one container, which start the
// tool as a process of its own.
func letOthersPlay() {
	GinkgoHelper()
	unlock()
	DeferCleanup(func() {
		again, err := replays.Lock()
		Expect(err).NotTo(HaveOccurred(), "a tool that was started still plays")
		unlock = again
	})
}

var _ = AfterSuite(func() {
	_, err := reports.WriteIndex(runs())
	if errors.Is(err, reports.ErrNoRuns) {
		return // nothing was played to its end, which its own spec says
	}
	Expect(err).NotTo(HaveOccurred())
})

// options of a play in a suite.
func options(name string) replays.VerifyOptions {
	now := time.Now()
	dir := filepath.Join(runs(), now.Format("2006-01-02T15-04-05")+"-"+name)
	Expect(os.MkdirAll(dir, 0o755)).To(Succeed())
	return replays.VerifyOptions{
		PlayOptions: replays.PlayOptions{
			Run: now.UTC().Format("20060102t150405") + "-" + name, Binary: binary,
			Tool: replays.DescribeTool("", ""), Command: os.Args,
			Observe: func(e replays.Event) {
				if e.Event == replays.EventPhase || e.Event == replays.EventTrouble {
					GinkgoWriter.Printf("%7.2fs %s %s%s\n", e.T, e.Event, e.Phase, e.Detail)
				}
			},
		},
		Dir: dir, Repeat: 1, Seed: uint64(GinkgoRandomSeed()),
	}
}
