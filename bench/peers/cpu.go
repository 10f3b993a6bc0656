package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ticksPerSecond is USER_HZ, in which the kernel reports processor time to programs on every Linux.
const ticksPerSecond = 100

// ownTime is the processor time of this process.
func ownTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// processesTime is that of processes and all below them, those that have ended included.
func processesTime(pids []int) (sum time.Duration) {
	stats := readProcesses()
	var add func(pid int)
	add = func(pid int) {
		sum += stats[pid].time
		for child, s := range stats {
			if s.parent == pid {
				add(child)
			}
		}
	}
	for _, pid := range pids {
		add(pid)
	}
	return sum
}

type stat struct {
	parent int
	time   time.Duration
}

func readProcesses() map[int]stat {
	all := map[int]stat{}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return all
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		content, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "stat"))
		if err != nil {
			continue
		}
		// The name in parentheses may hold anything: counting starts behind the last one.
		_, after, _ := strings.Cut(string(content[strings.LastIndexByte(string(content), ')'):]), " ")
		fields := strings.Fields(after)
		if len(fields) < 15 {
			continue
		}
		s := stat{}
		s.parent, _ = strconv.Atoi(fields[1])
		for _, field := range fields[11:15] {
			ticks, _ := strconv.ParseInt(field, 10, 64)
			s.time += time.Duration(ticks) * time.Second / ticksPerSecond
		}
		all[pid] = s
	}
	return all
}
