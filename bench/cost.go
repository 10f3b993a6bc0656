package bench

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// cost is what a side used up. Fields of processes that cannot be seen, because they run elsewhere, are negative.
type cost struct {
	brokers  time.Duration
	postgres time.Duration
	load     time.Duration
	// writes counts transactions that wrote, committed or not: the server hands out one number for each.
	writes int64
	wal    int64
}

func (c cost) since(o cost) cost {
	return cost{
		brokers: minus(c.brokers, o.brokers), postgres: minus(c.postgres, o.postgres), load: c.load - o.load,
		writes: minus(c.writes, o.writes), wal: minus(c.wal, o.wal),
	}
}

// minus keeps "unknown" unknown.
func minus[T ~int64](a, b T) T {
	if a < 0 || b < 0 {
		return -1
	}
	return a - b
}

// ticksPerSecond is USER_HZ, in which the kernel reports processor time to programs on every Linux.
const ticksPerSecond = 100

// processStat is the part of /proc/PID/stat that matters here.
type processStat struct {
	parent int
	own    time.Duration
	// reaped is the time of children that have ended.
	reaped time.Duration
}

func readProcess(pid int) (processStat, error) {
	content, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return processStat{}, err
	}
	return parseProcess(content)
}

// parseProcess reads fields as proc(5) numbers them. The second is the program's name in parentheses, which may hold
// anything, so that counting starts behind the last parenthesis.
func parseProcess(content []byte) (processStat, error) {
	at := bytes.LastIndexByte(content, ')')
	if at < 0 {
		return processStat{}, errors.New("no program name")
	}
	fields := strings.Fields(string(content[at+1:]))
	const state, parent, user, childSystem = 3, 4, 14, 17
	if len(fields) <= childSystem-state {
		return processStat{}, fmt.Errorf("only %d fields", len(fields))
	}
	var ticks [4]int64
	for i := range ticks {
		n, err := strconv.ParseInt(fields[user-state+i], 10, 64)
		if err != nil {
			return processStat{}, err
		}
		ticks[i] = n
	}
	ppid, err := strconv.Atoi(fields[parent-state])
	if err != nil {
		return processStat{}, err
	}
	return processStat{
		parent: ppid,
		own:    time.Duration(ticks[0]+ticks[1]) * time.Second / ticksPerSecond,
		reaped: time.Duration(ticks[2]+ticks[3]) * time.Second / ticksPerSecond,
	}, nil
}

// processesTime is the processor time of all given processes; -1 when one of them cannot be seen.
func processesTime(pids []int) time.Duration {
	if len(pids) == 0 {
		return -1
	}
	var sum time.Duration
	for _, pid := range pids {
		stat, err := readProcess(pid)
		if err != nil {
			return -1
		}
		sum += stat.own
	}
	return sum
}

// familyTime is the processor time of a process and its children, those that have ended included.
func familyTime(pid int) time.Duration {
	if pid <= 0 {
		return -1
	}
	head, err := readProcess(pid)
	if err != nil {
		return -1
	}
	sum := head.own + head.reaped
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return -1
	}
	for _, entry := range entries {
		child, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if stat, err := readProcess(child); err == nil && stat.parent == pid {
			sum += stat.own + stat.reaped
		}
	}
	return sum
}

// ownTime is the processor time of this process.
func ownTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
