// SPDX-License-Identifier: Apache-2.0

// Command gate runs stages of tests, which are make targets, one after another, and ends with a table of them and what failed.
//
//	gate [--summary FILE] [--logs FOLDER] [--keep-going] STAGE...
//
// A stage that fails ends the run, unless --keep-going is set or CI is in the environment, where nobody is there to run the next one.
// The summary is written as JSON; a run that is killed leaves none.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/zeroinfra/hack/gate/internal/events"
	"github.com/zeroinfra/hack/gate/internal/host"
	"github.com/zeroinfra/hack/gate/internal/stage"
	"github.com/zeroinfra/hack/gate/internal/summary"
)

const (
	// first is the stage that all others stand on.
	first = "deps"
	// smoke is the stage that makes a cluster, at this port of the loopback interface.
	smoke     = "test-smoke"
	smokePort = 16446
	// diskCold and diskWarm are what a run writes without and with caches, in bytes.
	diskCold, diskWarm = 20 << 30, 5 << 30
)

// options are the flags of a run.
type options struct {
	summary   string
	logs      string
	keepGoing bool
	stages    []string
}

func main() {
	var o options
	flag.StringVar(&o.summary, "summary", "bin/test-summary.json", "file that the summary is written to")
	flag.StringVar(&o.logs, "logs", "bin/test", "folder for the output and the test events of each stage")
	flag.BoolVar(&o.keepGoing, "keep-going", os.Getenv("CI") != "", "run the other stages after one that failed")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: gate [--summary FILE] [--logs FOLDER] [--keep-going] STAGE...")
		flag.PrintDefaults()
	}
	flag.Parse()
	if o.stages = flag.Args(); len(o.stages) == 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer cancel()
	passed, err := run(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "gate:", err)
	}
	if err != nil || !passed {
		os.Exit(1)
	}
}

// run runs the stages and says whether all of them passed.
func run(ctx context.Context, o options) (bool, error) {
	root, err := os.Getwd()
	if err != nil {
		return false, err
	}
	logs, err := filepath.Abs(o.logs)
	if err != nil {
		return false, err
	}
	if err := os.Remove(o.summary); err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, fmt.Errorf("cannot remove the summary of the run before: %w", err)
	}
	if missing := host.Check(needs(root, o.stages)); len(missing) > 0 {
		for _, sentence := range missing {
			fmt.Fprintln(os.Stderr, "cannot test:", sentence)
		}
		return false, fmt.Errorf("%d things are missing", len(missing))
	}
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return false, fmt.Errorf("cannot make the folder of the logs: %w", err)
	}
	s := &summary.Summary{Result: summary.Passed, Failed: []summary.Test{}, Flaky: []summary.Test{}}
	if s.Commit, s.Dirty, err = host.Commit(root); err != nil {
		return false, err
	}
	runner := stage.Runner{Root: root, Logs: logs, Out: os.Stdout}
	for _, name := range o.stages {
		if err := runStage(ctx, runner, s, name); err != nil {
			return false, err
		}
		failed := s.Stages[len(s.Stages)-1].Result == summary.Failed
		if failed {
			s.Result = summary.Failed
		}
		if ctx.Err() != nil || failed && (!o.keepGoing || name == first) {
			break
		}
	}
	s.Print(os.Stdout)
	return s.Result == summary.Passed, s.Write(o.summary)
}

// runStage runs one stage and adds how it ended to the summary.
func runStage(ctx context.Context, runner stage.Runner, s *summary.Summary, name string) error {
	fmt.Printf("\n=== %s\n", name)
	begun := time.Now()
	failure := runner.Run(ctx, name)
	if failure != nil {
		fmt.Printf("=== %s failed: %v\n", name, failure)
	}
	tests, err := events.Read(runner.Events(name))
	if err != nil {
		return err
	}
	s.Add(summary.Stage{Name: name, Seconds: int(time.Since(begun).Seconds()), Log: runner.Log(name)}, tests, failure)
	return nil
}

// needs is what these stages need of the machine.
func needs(root string, stages []string) host.Needs {
	n := host.Needs{Disk: diskCold, Folders: []string{root}}
	cache, err := os.UserCacheDir()
	if err == nil {
		if _, err := os.Stat(filepath.Join(cache, "zeroinfra", "devcluster")); err == nil {
			n.Disk = diskWarm
		}
	}
	if slices.Contains(stages, smoke) && os.Getenv("KUBECONFIG") == "" {
		n.Root, n.Port = true, smokePort
		if _, err := os.Stat("/var/lib/zeroinfra/devcluster/smoke"); err == nil {
			n.Port = 0 // A run that was killed left its cluster, which the stage cleans up.
		}
	}
	return n
}
