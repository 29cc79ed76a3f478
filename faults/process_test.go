package faults_test

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"relapse/topologies"
)

// TestContractByProcesses runs the contract suite again in namespaces, where the nodes
// of its topology are processes and no engine is asked.
func TestContractByProcesses(t *testing.T) {
	program, err := rigProgram()
	if err != nil {
		t.Fatal(err)
	}
	topologies.RequireNamespaces(t, program)
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	again := topologies.NamespacedCommand(own, "-test.v", "-test.timeout=8m", "-test.run=^TestContract$")
	again.Env = append(again.Env, programVariable+"="+program)
	out, err := again.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(string(out), "--- PASS: TestContract (") {
		t.Errorf("the suite did not run:\n%s", out)
	}
}
