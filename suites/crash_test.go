package suites_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"

	"relapse/replays"
	"relapse/topologies"
)

var (
	crashSeed   = flag.Uint64("crash.seed", 0, "seed of the moments at which plays are broken off (default: ginkgo's)")
	crashCount  = flag.Int("crash.count", 20, "how many plays are broken off, each way in turn")
	engineStop  = flag.String("crash.engine-stop", "", "shell command that stops the container engine; without it and -crash.engine-start no play loses its engine")
	engineStart = flag.String("crash.engine-start", "", "shell command that starts the container engine again")
)

// Deadlines of the conditions that are waited for.
const (
	cleanWithin  = 90 * time.Second // from the crash until nothing is left: the watchdog gives up after a minute
	endsWithin   = 90 * time.Second // until a tool that was asked to end, or that finds its rig broken, does
	crashWithin  = 4 * time.Minute  // all of one crash
	reportWithin = 20 * time.Second // until a record is judged, or reported on
)

// crash is one way to break a play off.
type crash struct {
	says string
	// cannot says why this machine cannot have it; "" where it can.
	cannot func() string
	// prepare changes how the tool is started; may be nil.
	prepare func(t *tool)
	// strike comes at the random moment. The tool is there, or has just ended.
	strike func(ctx SpecContext, t *tool, random *rand.Rand)
	// exits are the codes that the tool may end with; killed stands for a signal.
	exits []int
	// unwritten says that the record cannot hold all that was told.
	unwritten bool
}

// killed is the exit code of a process that a signal ended, as package os has it.
const killed = -1

// Exit codes of the tool, see its README.
const (
	exitAsExpected = 0
	exitNot        = 1
	exitUnknown    = 2
	exitRig        = 3
	exitBadInput   = 4
)

// crashes are all ways, of which those that this machine can have take turns. A play
// that has already come to its end when it is struck ends as if nobody had.
var crashes = []crash{
	{says: "SIGKILL", strike: signalled(syscall.SIGKILL), exits: []int{killed, exitAsExpected, exitUnknown}},
	{says: "SIGTERM", strike: signalled(syscall.SIGTERM), exits: []int{exitRig, exitAsExpected, exitUnknown}},
	{says: "Ctrl-C", strike: signalled(syscall.SIGINT), exits: []int{exitRig, exitAsExpected, exitUnknown}},
	{says: "Ctrl-C twice", strike: interruptedTwice, exits: []int{killed, exitRig, exitAsExpected, exitUnknown}},
	{says: "its terminal is closed", prepare: onTerminal, strike: closeTerminal, exits: []int{killed, exitRig, exitAsExpected, exitUnknown}},
	{says: "nobody reads what it tells", prepare: intoPipe, strike: closeTerminal, exits: []int{killed, exitRig, exitAsExpected, exitUnknown}},
	{says: "a full disk", cannot: withoutRoot, prepare: ontoSmallDisk, strike: fillDisk, exits: []int{exitRig, exitAsExpected, exitUnknown}, unwritten: true},
	{says: "a node dies", strike: killContainer, exits: []int{exitRig, exitAsExpected, exitUnknown}},
	{says: "another tool beside it", strike: startAnother, exits: []int{exitAsExpected, exitUnknown}},
	{says: "its engine stops", cannot: withoutEngineCommands, strike: restartEngine, exits: []int{exitRig, exitAsExpected, exitUnknown}},
}

// Whatever breaks a play off, nothing of it is left outside its record, and the record
// can be read as far as it was written.
var _ = Describe("a play that is broken off", Ordered, ContinueOnFailure, Label("crash", "nightly"), func() {
	var seed uint64
	var whole time.Duration // of a play that nobody breaks off
	var mounts []string

	BeforeAll(func(ctx SpecContext) {
		seed = *crashSeed
		if seed == 0 {
			seed = uint64(GinkgoRandomSeed())
		}
		GinkgoWriter.Printf("seed %d: again with -crash.seed=%d -crash.count=%d\n", seed, seed, *crashCount)
		letOthersPlay()
		// The engine now has its image, and what it mounts for that.
		var t *tool
		code := exitUnknown
		for range 3 { // a play that a busy machine made unknown is played again
			if code == exitUnknown {
				t = newTool()
				t.start()
				code = t.end(ctx)
			}
		}
		Expect(code).To(Equal(exitAsExpected), "nobody broke it off, so it must pass: else no record could show a pass\n%s", t.told())
		whole = time.Since(t.began)
		Expect(outcomeOnDisk(ctx, t)).To(Equal(replays.Pass))
		nothingLeft(ctx, t)
		mounts = mountPoints()
	}, NodeTimeout(crashWithin))

	var ways []crash
	for _, how := range crashes {
		reason := ""
		if how.cannot != nil {
			reason = how.cannot()
		}
		if reason == "" {
			ways = append(ways, how)
			continue
		}
		It("cannot be broken off here: "+how.says, func() { Skip(reason) })
	}
	for n := range *crashCount {
		how := ways[n%len(ways)]
		It(fmt.Sprintf("leaves nothing and can be judged, %d: %s", n+1, how.says), func(ctx SpecContext) {
			random := rand.New(rand.NewPCG(seed, uint64(n)))
			moment := time.Duration(random.Float64() * float64(whole))
			AddReportEntry("struck", fmt.Sprintf("seed %d, number %d, after %s of about %s", seed, n+1, moment.Round(time.Millisecond), whole.Round(time.Millisecond)))
			t := newTool()
			if how.prepare != nil {
				how.prepare(t)
			}
			t.start()
			select {
			case <-time.After(time.Until(t.began.Add(moment))):
			case <-t.ended:
			case <-ctx.Done():
			}
			how.strike(ctx, t, random)
			code := t.end(ctx)
			may := how.exits
			if t.told() == "" { // it had barely begun, and had nothing to put in order
				may = append(slices.Clone(may), killed)
			}
			Expect(may).To(ContainElement(code), "exit code; it told\n%s", t.told())
			nothingLeft(ctx, t)
			Eventually(func() []string { return without(mountPoints(), mounts, t.folder) }).
				WithContext(ctx).WithTimeout(cleanWithin).WithPolling(100*time.Millisecond).Should(BeEmpty(), "mounts that were not there before")
			readable(ctx, t, code, how.unwritten)
		}, SpecTimeout(crashWithin))
	}
})

// tool is the tool as a process of its own, in a folder that holds all that it may
// write anywhere.
type tool struct {
	folder  string
	record  string
	began   time.Time
	ended   chan struct{} // closed once it has ended
	command *exec.Cmd
	// What it tells goes to a file, or to a terminal or pipe whose end we hold.
	stderr   *os.File
	terminal bool
	ours     *os.File // nil where it is a file
	read     bytes.Buffer
	reading  chan struct{} // closed once nothing more can be read of our end
}

func newTool() *tool {
	GinkgoHelper()
	folder, err := os.MkdirTemp("", "relapse-crash-*")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(os.RemoveAll, folder)
	for _, name := range []string{"tmp", "cache", "work"} {
		Expect(os.Mkdir(filepath.Join(folder, name), 0o755)).To(Succeed())
	}
	t := &tool{folder: folder, record: filepath.Join(folder, "record"), ended: make(chan struct{})}
	t.stderr, err = os.Create(filepath.Join(folder, "told"))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { _ = t.stderr.Close() }) // it may be closed already
	return t
}

// run makes a command of the tool that leaves everything in its folder.
func (t *tool) run(ctx context.Context, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, binary, args...)
	command.Dir = filepath.Join(t.folder, "work")
	command.Env = append(os.Environ(), "TMPDIR="+filepath.Join(t.folder, "tmp"), "XDG_CACHE_HOME="+filepath.Join(t.folder, "cache"))
	return command
}

func (t *tool) replay(record string) *exec.Cmd {
	GinkgoHelper()
	incident, err := filepath.Abs(filepath.Join("testdata", "crash"))
	Expect(err).NotTo(HaveOccurred())
	// No context: what ends it is what is tested.
	return t.run(context.Background(), "replay", incident, "--out", record)
}

func (t *tool) start() {
	GinkgoHelper()
	t.command = t.replay(t.record)
	t.command.Stderr = t.stderr
	if t.terminal {
		t.command.Stdin, t.command.Stdout = t.stderr, t.stderr
		t.command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	}
	t.began = time.Now()
	Expect(t.command.Start()).To(Succeed())
	DeferCleanup(func() {
		_ = t.command.Process.Kill() // of one that has ended it says so, and no more
		<-t.ended
	})
	if t.ours != nil {
		_ = t.stderr.Close() // the tool has its own
		t.reading = make(chan struct{})
		go func() {
			defer close(t.reading)
			_, _ = t.read.ReadFrom(t.ours) // ends with an error when either end is closed
		}()
	}
	go func() {
		_ = t.command.Wait() // the exit code says it
		close(t.ended)
	}()
}

// end waits until the tool has ended and gives its exit code.
func (t *tool) end(ctx context.Context) int {
	GinkgoHelper()
	Eventually(t.ended).WithContext(ctx).WithTimeout(endsWithin).Should(BeClosed(), "the tool ends")
	return t.command.ProcessState.ExitCode()
}

// running says whether it has not ended yet.
func (t *tool) running() bool {
	select {
	case <-t.ended:
		return false
	default:
		return true
	}
}

// told is what the tool has told so far; what it told to a terminal or a pipe only once
// that is closed.
func (t *tool) told() string {
	if t.ours != nil {
		select {
		case <-t.reading:
			return t.read.String()
		case <-time.After(time.Second):
			return "(what it tells is still being read)"
		}
	}
	b, err := os.ReadFile(t.stderr.Name())
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// ourRun says whether a run is the tool's: ids of runs end with the process that made
// them.
func (t *tool) ourRun(run string) bool {
	return strings.HasSuffix(run, "-"+strconv.Itoa(t.command.Process.Pid))
}

// signalled sends a signal. One that comes too late is none.
func signalled(sig syscall.Signal) func(SpecContext, *tool, *rand.Rand) {
	return func(_ SpecContext, t *tool, _ *rand.Rand) { _ = t.command.Process.Signal(sig) }
}

func interruptedTwice(ctx SpecContext, t *tool, random *rand.Rand) {
	_ = t.command.Process.Signal(os.Interrupt)
	pause(ctx, t, time.Duration(random.Int64N(int64(500*time.Millisecond))))
	_ = t.command.Process.Signal(os.Interrupt)
}

// pause lets a time go by that belongs to the crash, unless the tool ends before.
func pause(ctx context.Context, t *tool, d time.Duration) {
	select {
	case <-time.After(d):
	case <-t.ended:
	case <-ctx.Done():
	}
}

// onTerminal has the tool run on a terminal of its own, as its session's leader.
func onTerminal(t *tool) {
	GinkgoHelper()
	var err error
	t.ours, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { _ = t.ours.Close() })
	raw, err := t.ours.SyscallConn()
	Expect(err).NotTo(HaveOccurred())
	var number int
	var failed error
	Expect(raw.Control(func(fd uintptr) {
		if failed = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); failed == nil {
			number, failed = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	})).To(Succeed())
	Expect(failed).NotTo(HaveOccurred())
	_ = t.stderr.Close() // the file's
	t.stderr, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	Expect(err).NotTo(HaveOccurred())
	t.terminal = true
}

// intoPipe has the tool tell what it does into a pipe.
func intoPipe(t *tool) {
	GinkgoHelper()
	_ = t.stderr.Close() // the file's
	var err error
	t.ours, t.stderr, err = os.Pipe()
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { _ = t.ours.Close() })
}

func closeTerminal(_ SpecContext, t *tool, _ *rand.Rand) { _ = t.ours.Close() }

func withoutRoot() string {
	if os.Getuid() != 0 {
		return "making a small disk needs root"
	}
	return ""
}

// ontoSmallDisk puts the record onto a disk of its own.
func ontoSmallDisk(t *tool) {
	GinkgoHelper()
	disk := filepath.Join(t.folder, "disk")
	Expect(os.Mkdir(disk, 0o755)).To(Succeed())
	Expect(unix.Mount("tmpfs", disk, "tmpfs", 0, "size=8m")).To(Succeed())
	DeferCleanup(func() { Expect(unix.Unmount(disk, 0)).To(Succeed()) })
	t.record = filepath.Join(disk, "record")
}

// fillDisk leaves no room on the record's disk, for good or for a while: what is
// written afterwards must not follow half a line.
func fillDisk(ctx SpecContext, t *tool, random *rand.Rand) {
	path := filepath.Join(t.folder, "disk", "filler")
	f, err := os.Create(path)
	if errors.Is(err, unix.ENOSPC) {
		return
	}
	Expect(err).NotTo(HaveOccurred())
	chunk := make([]byte, 1<<12)
	for err == nil {
		_, err = f.Write(chunk)
	}
	Expect(err).To(MatchError(unix.ENOSPC))
	_ = f.Close()
	if random.IntN(2) == 0 {
		pause(ctx, t, 300*time.Millisecond+time.Duration(random.Int64N(int64(time.Second))))
		Expect(os.Remove(path)).To(Succeed())
	}
}

// killContainer kills a container of the run, the relay too, as soon as there is one.
func killContainer(ctx SpecContext, t *tool, random *rand.Rand) {
	docker := engine()
	defer docker.Close()
	for t.running() && ctx.Err() == nil {
		found, err := docker.ContainerList(ctx, client.ContainerListOptions{Filters: make(client.Filters).Add("label", topologies.LabelRun)})
		Expect(err).NotTo(HaveOccurred())
		ours := slices.DeleteFunc(found.Items, func(c container.Summary) bool { return !t.ourRun(c.Labels[topologies.LabelRun]) })
		if len(ours) > 0 {
			victim := ours[random.IntN(len(ours))]
			AddReportEntry("killed", victim.Labels[topologies.LabelNode])
			// It may be gone by now: then nobody kills it.
			_, _ = docker.ContainerKill(ctx, victim.ID, client.ContainerKillOptions{Signal: "SIGKILL"})
			return
		}
		pause(ctx, t, 20*time.Millisecond)
	}
}

// startAnother starts a second play, which is refused, and cleans, which spares what
// is alive.
func startAnother(ctx SpecContext, t *tool, _ *rand.Rand) {
	for t.running() && ctx.Err() == nil && !strings.Contains(t.told(), "seed") { // the first one has the lock once it tells its plan
		pause(ctx, t, 20*time.Millisecond)
	}
	record := filepath.Join(t.folder, "another")
	second := t.replay(record)
	said, err := second.CombinedOutput()
	if !t.running() {
		// It came too late to be refused, and may have left a record of its own.
		Expect(os.RemoveAll(record)).To(Succeed())
		return
	}
	var exit *exec.ExitError
	Expect(errors.As(err, &exit)).To(BeTrue(), "two tools play at once\n%s", said)
	Expect(exit.ExitCode()).To(Equal(exitRig), string(said))
	Expect(record).NotTo(BeADirectory(), "a play that was refused leaves no record")
	said, err = t.run(ctx, "clean").CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(said))
}

func withoutEngineCommands() string {
	if *engineStop == "" || *engineStart == "" {
		return "it stops the engine: say how with -crash.engine-stop and -crash.engine-start"
	}
	return ""
}

func restartEngine(ctx SpecContext, _ *tool, _ *rand.Rand) {
	for _, command := range []string{*engineStop, *engineStart} {
		said, err := exec.CommandContext(ctx, "sh", "-c", command).CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), "%s\n%s", command, said)
	}
	Eventually(func() error { _, err := topologies.Preflight(ctx); return err }).
		WithContext(ctx).WithTimeout(cleanWithin).WithPolling(200*time.Millisecond).Should(Succeed(), "the engine answers again")
}

func engine() *client.Client {
	GinkgoHelper()
	docker, err := client.New(client.FromEnv)
	Expect(err).NotTo(HaveOccurred())
	return docker
}

// nothingLeft waits until nothing of a tool's run is left but its record. What an
// engine cannot let go of, since it has lost count, is told and no failure.
func nothingLeft(ctx context.Context, t *tool) {
	GinkgoHelper()
	docker := engine()
	defer docker.Close()
	var networks []network.Summary
	Eventually(func() ([]string, error) {
		left, err := onMachine("/", filepath.Join(t.folder, "cache"), t.ourRun)
		if err != nil {
			return nil, err
		}
		labelled := make(client.Filters).Add("label", topologies.LabelRun)
		containers, err := docker.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: labelled})
		if err != nil {
			return nil, err
		}
		for _, c := range containers.Items {
			if t.ourRun(c.Labels[topologies.LabelRun]) {
				left = append(left, "container of node "+c.Labels[topologies.LabelNode])
			}
		}
		found, err := docker.NetworkList(ctx, client.NetworkListOptions{Filters: labelled})
		if err != nil {
			return nil, err
		}
		networks = slices.DeleteFunc(found.Items, func(n network.Summary) bool { return !t.ourRun(n.Labels[topologies.LabelRun]) })
		return left, nil
	}).WithContext(ctx).WithTimeout(cleanWithin).WithPolling(200*time.Millisecond).Should(BeEmpty(), "what is left of the run; it told\n%s", t.told())
	for _, n := range networks {
		_, err := docker.NetworkRemove(ctx, n.ID, client.NetworkRemoveOptions{})
		Expect(err).To(HaveOccurred(), "network %s was left, and the engine does remove it", n.Name)
		found, err := docker.NetworkInspect(ctx, n.ID, client.NetworkInspectOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(found.Network.Containers).To(BeEmpty(), "network %s was left with its containers", n.Name)
		AddReportEntry("kept by the engine, until it is restarted", n.Name)
	}
	var files []string
	for _, below := range []string{"tmp", "work"} {
		err := filepath.WalkDir(filepath.Join(t.folder, below), func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Name() != below {
				files = append(files, path)
			}
			return err
		})
		Expect(err).NotTo(HaveOccurred())
	}
	Expect(files).To(BeEmpty(), "files outside the record")
}

// readable holds that a record shows all that the tool told before it was broken off,
// that it is judged as unknown unless it is whole, and that nothing panics over it.
func readable(ctx context.Context, t *tool, code int, unwritten bool) {
	GinkgoHelper()
	if _, err := os.Stat(filepath.Join(t.record, "plan.json")); errors.Is(err, fs.ErrNotExist) {
		// It was broken off before there was anything to judge.
		judged, said := judge(ctx, t)
		Expect(judged).To(Equal(exitBadInput), said)
		return
	}
	record, err := replays.ReadRecord(t.record)
	Expect(err).NotTo(HaveOccurred(), "the record as far as it was written")
	if !unwritten {
		for _, phase := range phasesTold(t.told()) {
			Expect(record.Events).To(ContainElement(And(HaveField("Event", replays.EventPhase), HaveField("Phase", phase))),
				"it told of phase %s, and its journal does not", phase)
		}
	}
	outcome := outcomeOnDisk(ctx, t)
	if !isWhole(record) {
		Expect(outcome).To(Equal(replays.Unknown), "a play that was broken off says nothing about the system")
	}
	if code == exitAsExpected {
		Expect(outcome).To(Equal(replays.Pass), "the tool said so when it ended")
	}
	reporting, cancel := context.WithTimeout(ctx, reportWithin)
	defer cancel()
	said, err := t.run(reporting, "report", t.record, "--format", "html,json,junit,markdown", "--out", filepath.Join(t.folder, "reports")).CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "reports of a record that can be judged\n%s", said)
}

// isWhole says whether a play was recorded to its end: what it was played with is
// written last, and trouble is told.
func isWhole(r *replays.Record) bool {
	has := func(event string) bool {
		return slices.ContainsFunc(r.Events, func(e replays.Event) bool { return e.Event == event })
	}
	return has(replays.EventPhasesEnd) && !has(replays.EventTrouble) && r.Environment.Run != ""
}

// outcomeOnDisk judges a record by the tool.
func outcomeOnDisk(ctx context.Context, t *tool) replays.Outcome {
	GinkgoHelper()
	code, said := judge(ctx, t)
	Expect([]int{exitAsExpected, exitNot, exitUnknown}).To(ContainElement(code), said)
	var verdict struct {
		Outcome replays.Outcome `json:"outcome"`
	}
	Expect(json.Unmarshal([]byte(said), &verdict)).To(Succeed(), said)
	return verdict.Outcome
}

// judge gives the exit code and the verdict, or why there is none. A panic has the
// exit code of an unknown verdict.
func judge(ctx context.Context, t *tool) (code int, said string) {
	GinkgoHelper()
	ctx, cancel := context.WithTimeout(ctx, reportWithin)
	defer cancel()
	command := t.run(ctx, "judge", "--json", t.record)
	var out, failure bytes.Buffer
	command.Stdout, command.Stderr = &out, &failure
	err := command.Run()
	var exit *exec.ExitError
	Expect(err == nil || errors.As(err, &exit)).To(BeTrue(), "%v", err)
	Expect(failure.String()).NotTo(ContainSubstring("goroutine "), "it panicked")
	if out.Len() > 0 {
		return command.ProcessState.ExitCode(), out.String()
	}
	return command.ProcessState.ExitCode(), failure.String()
}

var phaseTold = regexp.MustCompile(`(?m)\d\.\d\ds  phase ([\w.-]+)`)

// phasesTold are the phases that the tool told the beginning of.
func phasesTold(told string) []string {
	var out []string
	for _, m := range phaseTold.FindAllStringSubmatch(told, -1) {
		out = append(out, m[1])
	}
	return out
}

// mountPoints are those of this process's part of the file system.
func mountPoints() []string {
	GinkgoHelper()
	b, err := os.ReadFile("/proc/self/mountinfo")
	Expect(err).NotTo(HaveOccurred())
	var out []string
	for line := range strings.Lines(string(b)) {
		if fields := strings.Fields(line); len(fields) > 4 {
			out = append(out, fields[4])
		}
	}
	return out
}

// without are the paths that are not among others, and not below a folder.
func without(paths, others []string, folder string) []string {
	return slices.DeleteFunc(slices.Clone(paths), func(p string) bool {
		return slices.Contains(others, p) || strings.HasPrefix(p, folder+"/")
	})
}
