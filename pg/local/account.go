package local

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// account is whom the server runs as. The zero value is ourselves.
type account struct {
	name     string
	uid, gid int
	foreign  bool
}

// chooseAccount keeps us unless we are root, which PostgreSQL refuses. Then it is whoever owns the folder already, so that
// one `sudo` does not take a folder away from its owner; else a system account.
func chooseAccount(dir string) (account, error) {
	if os.Geteuid() != 0 {
		return account{}, nil
	}
	for _, path := range []string{filepath.Join(dir, "data"), dir} {
		info, err := os.Stat(path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return account{}, fmt.Errorf("look at server folder: %w", err)
		}
		if owner := info.Sys().(*syscall.Stat_t); owner.Uid != 0 {
			return account{name: fmt.Sprintf("uid %d", owner.Uid), uid: int(owner.Uid), gid: int(owner.Gid), foreign: true}, nil
		}
	}
	for _, name := range []string{"postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errUID := strconv.Atoi(found.Uid)
		gid, errGID := strconv.Atoi(found.Gid)
		if errUID == nil && errGID == nil && uid != 0 {
			return account{name: name, uid: uid, gid: gid, foreign: true}, nil
		}
	}
	return account{}, errors.New("PostgreSQL does not run as root and there is no account postgres or nobody to run it under; " +
		"create one or start as an ordinary user")
}

// own gives a path to the account.
func (a account) own(path string) error {
	if !a.foreign {
		return nil
	}
	if err := os.Chown(path, a.uid, a.gid); err != nil {
		return fmt.Errorf("give %s to %s: %w", path, a.name, err)
	}
	return nil
}

// admit lets the account pass through the server's folder. It does not get the folder: whoever breaks into the server
// could otherwise put a link where root writes the log.
func (a account) admit(dir string) error {
	if !a.foreign {
		return nil
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("look at server folder: %w", err)
	}
	if err := os.Chmod(dir, info.Mode().Perm()|0o011); err != nil {
		return fmt.Errorf("open server folder to %s: %w", a.name, err)
	}
	return nil
}

// reaches reports whether the account may pass through every folder above dir.
func (a account) reaches(dir string) (bool, error) {
	if !a.foreign {
		return true, nil
	}
	for parent := filepath.Dir(dir); ; parent = filepath.Dir(parent) {
		info, err := os.Stat(parent)
		if err != nil {
			return false, fmt.Errorf("look at parent folder: %w", err)
		}
		owner, mode := info.Sys().(*syscall.Stat_t), info.Mode().Perm()
		passable := mode&0o001 != 0
		switch {
		case int(owner.Uid) == a.uid:
			passable = mode&0o100 != 0
		case int(owner.Gid) == a.gid:
			passable = mode&0o010 != 0
		}
		if !passable {
			return false, nil
		}
		if parent == filepath.Dir(parent) {
			return true, nil
		}
	}
}

// entrance is how the server's programs name the folder. It is closed after they were started.
type entrance struct {
	// path stands for the folder in the programs' arguments.
	path string
	// handle is the open folder when path goes through it.
	handle *os.File
}

// inherited is the first descriptor after standard error: where exec.Cmd puts the first of its ExtraFiles.
const inherited = 3

// open finds a path to dir that the account can use. Usually that is dir itself. Below a folder that is closed to others (a
// clone in /root, mode 700) no path from the root leads there; we do not change the modes of folders that are not ours, and
// data elsewhere would outlive the folder. But a descriptor, once open, needs no path: we open the folder as root and pass
// it on, and the programs reach it as /proc/self/fd/3, which the kernel resolves without walking through the parents.
// The server never closes it, and every process of the server inherits it by fork.
func (a account) open(dir string) (entrance, error) {
	reachable, err := a.reaches(dir)
	if err != nil {
		return entrance{}, err
	}
	if reachable {
		return entrance{path: dir}, nil
	}
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		return entrance{}, fmt.Errorf("the account %s, under which PostgreSQL has to run because we are root, cannot enter %s; "+
			"choose a folder all of whose parents are open to others (chmod o+x), or start as an ordinary user", a.name, dir)
	}
	handle, err := os.Open(dir)
	if err != nil {
		return entrance{}, fmt.Errorf("open server folder: %w", err)
	}
	return entrance{path: fmt.Sprintf("/proc/self/fd/%d", inherited), handle: handle}, nil
}

func (e entrance) close() {
	if e.handle != nil {
		e.handle.Close()
	}
}

// command prepares one of the server's programs under the account, in a process group of its own, with nothing of our
// environment that would redirect it.
func (a account) command(in entrance, program string, arguments ...string) *exec.Cmd {
	cmd := exec.Command(program, arguments...)
	cmd.Dir = "/" // ours may be closed to the account
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "PG") && !strings.HasPrefix(variable, "LC_") && !strings.HasPrefix(variable, "LANG") {
			cmd.Env = append(cmd.Env, variable)
		}
	}
	cmd.Env = append(cmd.Env, "LC_ALL=C")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if a.foreign {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
	}
	if in.handle != nil {
		cmd.ExtraFiles = []*os.File{in.handle}
	}
	return cmd
}
