package topologies_test

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"relapse/topologies"
)

func TestTmpfsOptions(t *testing.T) {
	const usual = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	for _, tc := range []struct {
		have  string
		flags uintptr
		want  string
	}{
		{"", usual, "mode=1777"},
		{"size=64m,uid=65534,gid=65534", usual, "size=64m,uid=65534,gid=65534,mode=1777"},
		{"uid=1,mode=0700", usual, "uid=1,mode=0700"},
		{"rw,noexec,size=1m", usual, "size=1m,mode=1777"},
		{"exec", usual &^ unix.MS_NOEXEC, "mode=1777"},
		{"ro,size=1m", usual | unix.MS_RDONLY, "size=1m,mode=1777"},
	} {
		if flags, data := topologies.TmpfsOptions(tc.have); flags != tc.flags || data != tc.want {
			t.Errorf("%q: have %#x, %q; want %#x, %q", tc.have, flags, data, tc.flags, tc.want)
		}
	}
}

func TestProgramsOfANode(t *testing.T) {
	for _, tc := range []struct {
		name string
		node topologies.Node
		want []string
		is   error
	}{
		{"a program", topologies.Node{Entrypoint: []string{"nginx", "-c", "/etc/bin/nginx.conf"}}, []string{"nginx"}, nil},
		{"a shell", topologies.Node{Entrypoint: []string{"/bin/sh", "-c", "/usr/lib/x/bin/initdb -D /tmp/data >/tmp/log; exec /usr/lib/x/bin/postgres"}},
			[]string{"/bin/sh", "/usr/lib/x/bin/initdb", "/usr/lib/x/bin/postgres"}, nil},
		{"its image's", topologies.Node{Name: "cache", Image: "memcached:1", Command: []string{"-m", "64"}}, nil, topologies.ErrNotByProcesses},
	} {
		have, err := topologies.ProgramsOf(&tc.node)
		if !slices.Equal(have, tc.want) || !errors.Is(err, tc.is) {
			t.Errorf("%s: have %q, %v; want %q, %v", tc.name, have, err, tc.want, tc.is)
		}
	}
}

func TestDescendants(t *testing.T) {
	parent := exec.Command("/bin/sh", "-c", "/bin/sh -c 'sleep 60 & echo $!; wait' & wait")
	parent.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = unix.Kill(-parent.Process.Pid, unix.SIGKILL)
		_ = parent.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	grandchild, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	have := topologies.Descendants(parent.Process.Pid)
	if len(have) != 3 || have[0] != parent.Process.Pid || !slices.Contains(have, grandchild) {
		t.Errorf("have %d; want three, from %d to %d", have, parent.Process.Pid, grandchild)
	}
}

func TestProcessLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	log, flush := topologies.NewProcessLog(path)
	for _, text := range []string{"first\nsec", "ond\n\n", "cut off"} {
		if n, err := log.Write([]byte(text)); err != nil || n != len(text) {
			t.Fatalf("%d, %v", n, err)
		}
	}
	for range 2 { // a second time there is nothing left
		flush()
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for line := range strings.Lines(string(content)) {
		stamp, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if _, err := time.Parse(time.RFC3339Nano, stamp); err != nil {
			t.Error(err)
		}
		have = append(have, text)
	}
	if want := []string{"first", "second", "", "cut off"}; !slices.Equal(have, want) {
		t.Errorf("have %q, want %q", have, want)
	}
}
