// SPDX-License-Identifier: Apache-2.0

// Package apt keeps a private apt root per suite, plans which packages an image
// needs and downloads them. The apt and dpkg state of the host is read by nobody
// here and changed by nobody; only its sources and network settings are taken over.
package apt

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/zeroinfra/hack/images/internal/command"
	"github.com/zeroinfra/hack/images/internal/sources"
)

// maxAge is how old package lists may become before they are fetched again.
const maxAge = 24 * time.Hour

// hint is shown when apt's programs are missing.
const hint = "images made from Debian packages need a host with apt and dpkg"

// carried are the prefixes of the host's apt settings that reach the private root:
// how to get at the network and how strict to be about the age of signatures.
// The switches that turn signature checks off are not among them.
var carried = []string{
	"Acquire::http::", "Acquire::https::", "Acquire::Retries ", "Acquire::ForceIPv4 ", "Acquire::ForceIPv6 ",
	"Acquire::Check-Valid-Until ", "Acquire::Check-Date ",
}

// Root is a private apt root for one suite, or several together, and one architecture, locked for this process.
type Root struct {
	suite, arch, dir string
	lock             *os.File
	fresh            bool
}

// Options say where a Root is and how it is fed.
type Options struct {
	// Cache is the folder that holds the roots of all suites.
	Cache string
	// Suite is one of sources.Suites.
	Suite string
	// Also are further suites that packages come from which Suite has not. Of a package that several have, the latest
	// version is taken.
	Also []string
	// Arch is the Debian name of the architecture, such as amd64.
	Arch string
	// Host is the file system whose apt sources are used; empty means "/".
	Host string
	// Refresh is how old the lists may be; zero means a day, negative means fetch always.
	Refresh time.Duration
}

// Open makes or reuses the root, waits for its lock, and fetches package lists
// when they are missing, too old, or from other sources than the host's present ones.
func Open(ctx context.Context, o Options) (_ *Root, err error) {
	if o.Host == "" {
		o.Host = "/"
	}
	if o.Refresh == 0 {
		o.Refresh = maxAge
	}
	host, err := sources.ReadHost(o.Host)
	if err != nil {
		return nil, err
	}
	var entries []sources.Entry
	suites := append([]string{o.Suite}, o.Also...)
	for _, suite := range suites {
		derived, err := sources.Derive(host, suite)
		if err != nil {
			return nil, fmt.Errorf("cannot find a source for suite %q: %w", suite, err)
		}
		entries = append(entries, derived...)
	}
	name := strings.Join(suites, "+")
	r := &Root{suite: name, arch: o.Arch, dir: filepath.Join(o.Cache, "apt", name+"-"+o.Arch)}
	if err := r.acquire(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			r.Close()
		}
	}()
	settings, err := r.settings(ctx)
	if err != nil {
		return nil, err
	}
	changed, err := r.configure(sources.Format(entries), settings)
	if err != nil {
		return nil, err
	}
	if changed || r.age() > o.Refresh {
		err = r.Update(ctx)
	}
	return r, err
}

// Close gives the root free for others. Once it is free, it does nothing.
func (r *Root) Close() error {
	if r.lock == nil {
		return nil
	}
	err := r.lock.Close()
	r.lock = nil
	return err
}

// Fresh tells whether the lists were fetched since Open, so that fetching again would change nothing.
func (r *Root) Fresh() bool { return r.fresh }

// Update fetches the package lists. Any list that cannot be fetched or verified is an error.
func (r *Root) Update(ctx context.Context) error {
	if err := os.Remove(r.path("updated")); err != nil && !os.IsNotExist(err) {
		return err
	}
	if err := r.forgetPlans(); err != nil {
		return err
	}
	if _, err := r.apt(ctx, "apt-get", "", "update", "-q", "-o", "APT::Update::Error-Mode=any"); err != nil {
		return fmt.Errorf("cannot fetch package lists of %q (for a missing key, upgrade debian-archive-keyring): %w", r.suite,
			err)
	}
	r.fresh = true
	return os.WriteFile(r.path("updated"), []byte(time.Now().UTC().Format(time.RFC3339Nano)), 0o644)
}

// forgetPlans drops remembered answers, which hold for one set of lists only.
func (r *Root) forgetPlans() error {
	if err := os.RemoveAll(r.path("plans")); err != nil {
		return err
	}
	return os.Mkdir(r.path("plans"), 0o755)
}

func (r *Root) path(elem ...string) string { return filepath.Join(append([]string{r.dir}, elem...)...) }

func (r *Root) apt(ctx context.Context, name, dir string, args ...string) ([]byte, error) {
	c := command.Command{Name: name, Args: args, Dir: dir, Env: []string{"APT_CONFIG=" + r.path("apt.conf")}, Hint: hint}
	return c.Output(ctx)
}

func (r *Root) acquire() error {
	for _, d := range []string{
		"etc/apt/apt.conf.d", "etc/apt/preferences.d", "etc/apt/sources.list.d", "etc/apt/trusted.gpg.d",
		"lists/partial", "cache/archives/partial", "debs", "plans",
	} {
		if err := os.MkdirAll(r.path(d), 0o755); err != nil {
			return fmt.Errorf("cannot make apt root: %w", err)
		}
	}
	lock, err := os.OpenFile(r.path("lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return fmt.Errorf("cannot open lock of apt root: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		lock.Close()
		return fmt.Errorf("cannot lock apt root %q: %w", r.dir, err)
	}
	r.lock = lock
	return nil
}

// settings returns the carried settings of the host's apt.
func (r *Root) settings(ctx context.Context) (string, error) {
	out, err := command.Command{Name: "apt-config", Args: []string{"dump"}, Hint: hint}.Output(ctx)
	if err != nil {
		return "", fmt.Errorf("cannot read apt settings of the host: %w", err)
	}
	var kept strings.Builder
	for line := range strings.Lines(string(out)) {
		for _, prefix := range carried {
			if strings.HasPrefix(line, prefix) {
				kept.WriteString(line)
			}
		}
	}
	return kept.String(), nil
}

// configure writes what apt reads and tells whether any of it is new.
func (r *Root) configure(sourceList, settings string) (bool, error) {
	conf := fmt.Sprintf(`Dir %[1]q;
Dir::Etc %[2]q;
Dir::Etc::netrc "/etc/apt/auth.conf";
Dir::Etc::netrcparts "/etc/apt/auth.conf.d";
Dir::State %[1]q;
Dir::State::status %[3]q;
Dir::Cache %[4]q;
APT::Architecture %[5]q;
APT::Architectures { %[5]q; };
APT::Install-Recommends "false";
APT::Sandbox::User "root";
Acquire::Languages "none";
`, r.dir, r.path("etc/apt"), r.path("status"), r.path("cache"), r.arch)
	changed := false
	for name, content := range map[string]string{
		"apt.conf": conf + settings, "status": "", "etc/apt/sources.list.d/debian.sources": sourceList,
	} {
		old, err := os.ReadFile(r.path(name))
		if err == nil && string(old) == content {
			continue
		}
		changed = true
		if err := os.WriteFile(r.path(name), []byte(content), 0o644); err != nil {
			return false, fmt.Errorf("cannot write apt settings: %w", err)
		}
	}
	return changed, nil
}

// age is the time since the lists were fetched, or very long when they never were.
func (r *Root) age() time.Duration {
	info, err := os.Stat(r.path("updated"))
	if err != nil {
		return 1<<63 - 1
	}
	return time.Since(info.ModTime())
}
