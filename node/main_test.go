package node_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

// program is the waggle executable that the tests of this package run. It is built once, without the race detector:
// what is proved here is about processes and the time between them, and each package has its own tests under -race.
var program string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	folder, err := os.MkdirTemp("", "waggle-node-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "make folder for the program:", err)
		return 1
	}
	defer os.RemoveAll(folder)
	program = filepath.Join(folder, "waggle")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", program, "waggle")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "build the program:", err)
		return 1
	}
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}
