// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/zeroinfra/hack/gate/internal/events"
	"github.com/zeroinfra/hack/gate/internal/host"
	"github.com/zeroinfra/hack/gate/internal/stage"
	"github.com/zeroinfra/hack/gate/internal/summary"
)

const (
	// preflight is the name of what is looked at before the first stage.
	preflight = "preflight"
	// first is the stage that all others stand on.
	first = "deps"
	// smoke is the stage that makes a cluster by a script, at this port of the loopback interface, with its state in a
	// folder.
	smoke       = "test-smoke"
	smokeScript = "hack/cluster/smoke.sh"
	smokePort   = 16446
	smokeState  = "/var/lib/zeroinfra/devcluster/smoke"
	// diskCold and diskWarm are what a run writes without and with caches, in bytes.
	diskCold, diskWarm = 20 << 30, 5 << 30
)

// gate is one run.
type gate struct {
	options
	root  string
	out   io.Writer
	needs func(root string, stages []string) host.Needs

	runner  stage.Runner
	summary *summary.Summary
}

// run runs the stages and says whether all of them passed.
func (g *gate) run(ctx context.Context) (bool, error) {
	logs, err := filepath.Abs(g.logs)
	if err != nil {
		return false, err
	}
	if err := os.Remove(g.options.summary); err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, fmt.Errorf("cannot remove the summary of the run before: %w", err)
	}
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return false, fmt.Errorf("cannot make the folder of the logs: %w", err)
	}
	g.runner = stage.Runner{Root: g.root, Logs: logs, Out: g.out}
	g.summary = summary.New()
	g.summary.Root = g.root
	if g.preflight() {
		g.runStages(ctx)
	}
	g.summary.Print(g.out)
	return g.summary.Result == summary.Passed, g.summary.Write(g.options.summary)
}

// preflight says whether the machine has what the stages need. What is missing is told as a stage that failed.
func (g *gate) preflight() bool {
	missing := host.Check(g.needs(g.root, g.stages))
	var err error
	if g.summary.Commit, g.summary.Dirty, err = host.Commit(g.root); err != nil {
		missing = append(missing, err.Error())
	}
	if len(missing) == 0 {
		return true
	}
	log := g.runner.Log(preflight)
	err = errors.Join(errors.New("this machine cannot run the tests"),
		os.WriteFile(log, []byte(strings.Join(missing, "\n")+"\n"), 0o644))
	g.summary.Add(summary.Stage{Name: preflight, Log: g.short(log)}, events.Results{}, err)
	g.summary.NotRun = g.stages
	return false
}

// runStages runs one stage after another until one fails that the others may not be run without.
func (g *gate) runStages(ctx context.Context) {
	for i, name := range g.stages {
		passed := g.runStage(ctx, name)
		if ctx.Err() != nil || !passed && (!g.keepGoing || name == first) {
			g.summary.NotRun = g.stages[i+1:]
			return
		}
	}
}

// runStage runs one stage, adds how it ended to the summary, and says whether it passed.
func (g *gate) runStage(ctx context.Context, name string) bool {
	fmt.Fprintf(g.out, "\n=== %s\n", name)
	begun := time.Now()
	failure := g.runner.Run(ctx, name)
	if failure != nil {
		fmt.Fprintf(g.out, "=== %s failed: %v\n", name, failure)
	}
	tests, err := events.Read(g.runner.Events(name))
	failure = errors.Join(failure, err, tests.Keep(g.runner.Events(name)))
	for _, some := range [][]events.Test{tests.Failed, tests.Flaky} {
		for i := range some {
			some[i].Log = g.short(some[i].Log)
		}
	}
	ended := summary.Stage{Name: name, Seconds: int(time.Since(begun).Seconds()), Log: g.short(g.runner.Log(name))}
	return g.summary.Add(ended, tests, failure)
}

// short is a path as it is written from the root.
func (g *gate) short(path string) string {
	if short, err := filepath.Rel(g.root, path); err == nil && filepath.IsLocal(short) {
		return short
	}
	return path
}

// needs is what these stages need of the machine.
func needs(root string, stages []string) host.Needs {
	n := host.Needs{Disk: map[string]uint64{root: diskWarm}}
	if cache, err := os.UserCacheDir(); err == nil {
		n.Disk[cache] = diskWarm
		if _, err := os.Stat(filepath.Join(cache, "zeroinfra", "devcluster")); err != nil {
			n.Disk[cache] = diskCold
		}
	}
	if slices.Contains(stages, smoke) && os.Getenv("KUBECONFIG") == "" {
		n.Root, n.Port, n.Script = true, smokePort, smokeScript
		if _, err := os.Stat(smokeState); err == nil {
			n.Port = 0 // A run that was killed left its cluster, which the stage takes down.
		}
	}
	return n
}
