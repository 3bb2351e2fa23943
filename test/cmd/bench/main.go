// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command bench measures the database operator over many Applications on simulated
// nodes, beside the same number of StatefulSets, and writes what it found. See docs/bench.
//
// It needs root: it works in a network and among processes of its own, which end with it.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/zeroinfra/test/bench/machine"
	"github.com/zeroinfra/test/bench/result"
	"github.com/zeroinfra/test/bench/scenario"
)

// Files that the bench writes.
const (
	dataFile  = "results.json"
	pageFile  = "results.md"
	plotFile  = "results.svg"
	logFolder = "logs"
)

// settings are the flags.
type settings struct {
	scenario.Config
	sizes   string
	out     string
	commit  string
	workDir string
	render  string
	// workflows and cronJobs are files of figures of the benches of the batch operator.
	workflows, cronJobs string
	// load of the machine before these ran.
	load string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctrl.SetLogger(logr.Discard())
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var s settings
	flag.StringVar(&s.sizes, "sizes", "100,1000", "numbers of Applications, separated by commas; a run for each")
	flag.IntVar(&s.Namespaces, "namespaces", 10, "namespaces to spread them over")
	flag.DurationVar(&s.Idle, "idle", 2*time.Minute, "how long nothing may be written at rest")
	flag.DurationVar(&s.Patience, "patience", 30*time.Minute, "how long one phase may take")
	flag.StringVar(&s.Assets, "assets", "", "folder with the programs of Kubernetes (devcluster bin)")
	flag.StringVar(&s.KWOK, "kwok", "", "path of kwok")
	flag.StringVar(&s.Operator, "operator", "", "path of the operator")
	flags := flag.String("operator-flags", "",
		"further flags of the operator, separated by blanks, such as \"--workers=20 --kube-api-qps=200\"")
	flag.StringVar(&s.Zictl, "zictl", "", "path of zictl")
	flag.StringVar(&s.Plugin, "plugin", "bench/plugin/cell/1.0.0", "folder of the bench's plugin")
	flag.StringVar(&s.Roles, "roles", "../database-operator/config/rbac",
		"folder with the role of the operator's own kinds")
	flag.StringVar(&s.out, "out", "../docs/bench", "folder for the results")
	flag.StringVar(&s.workDir, "work", "",
		"folder for logs and state (default: a temporary one, which is kept after an error)")
	flag.StringVar(&s.Profiles, "profiles", "",
		"folder for profiles of CPU time and heap of the operator and the API server (default: none are taken)")
	flag.StringVar(&s.commit, "commit", "unknown", "what was built, for the page")
	flag.StringVar(&s.render, "render", "", "only write page and plot again, from this file of results")
	flag.StringVar(&s.workflows, "workflows", "",
		"only write page and plot of the batch operator, with these figures of make bench-workflows")
	flag.StringVar(&s.cronJobs, "cronjobs", "",
		"only write page and plot of the batch operator, with these figures of make bench-cronjobs")
	flag.StringVar(&s.load, "load", "unknown", "load of the machine before make bench-workflows or bench-cronjobs began")
	flag.Parse()
	s.OperatorFlags = strings.Fields(*flags)
	if s.render != "" {
		return again(s)
	}
	if s.workflows != "" || s.cronJobs != "" {
		return recordBatch(ctx, s)
	}
	sizes, err := parseSizes(s.sizes)
	if err != nil {
		return err
	}
	if !isolated() {
		return isolate(ctx)
	}
	if err := enter(ctx); err != nil {
		return err
	}
	return measure(ctx, s, sizes)
}

// parseSizes reads the numbers of Applications, the smallest first.
func parseSizes(text string) ([]int, error) {
	const most = 5000
	var sizes []int
	for word := range strings.SplitSeq(text, ",") {
		size, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || size < 1 || size > most {
			return nil, fmt.Errorf("cannot make %q Applications: -sizes takes numbers from 1 to %d, separated by commas", word,
				most)
		}
		sizes = append(sizes, size)
	}
	slices.Sort(sizes)
	return slices.Compact(sizes), nil
}

// measure runs the scenario for each size and writes what it found. Its error names what firm budgets were missed, once
// all is written.
func measure(ctx context.Context, s settings, sizes []int) (err error) {
	report := result.Report{}
	if report.Machine, err = machine.Facts(ctx, machine.Programs{
		KubernetesFolder: s.Assets, KWOK: s.KWOK, Commit: s.commit,
	}); err != nil {
		return err
	}
	report.Machine.Components["operator's flags"] = cmp.Or(strings.Join(s.OperatorFlags, " "), "defaults")
	if s.workDir == "" {
		if s.workDir, err = os.MkdirTemp("", "bench-"); err != nil {
			return err
		}
		defer func() {
			if err == nil {
				err = os.RemoveAll(s.workDir)
			}
		}()
	}
	for _, size := range sizes {
		c := s.Config
		c.Applications, c.Namespaces = size, min(s.Namespaces, size)
		c.Folder = filepath.Join(s.workDir, logFolder, strconv.Itoa(size))
		start := time.Now()
		c.Say = func(format string, arguments ...any) {
			fmt.Fprintf(os.Stderr, "[%d: %6.1fs] %s\n", size, time.Since(start).Seconds(), fmt.Sprintf(format, arguments...))
		}
		// Only an empty folder: a log is read from its beginning.
		if err := os.RemoveAll(c.Folder); err != nil {
			return err
		}
		if err := os.MkdirAll(c.Folder, 0o700); err != nil {
			return err
		}
		run, err := scenario.Run(ctx, c)
		if err != nil {
			return fmt.Errorf("%w (logs are in %s)", err, c.Folder)
		}
		report.Runs = append(report.Runs, run)
	}
	if err := write(s.out, report); err != nil {
		return err
	}
	if err := report.Failed(); err != nil {
		return fmt.Errorf("budgets that hold on every machine were missed (the results are in %s, logs in %s):\n%w", s.out,
			s.workDir, err)
	}
	return nil
}

// write writes data, page and plot.
func write(folder string, report result.Report) error {
	data, err := json.MarshalIndent(report, "", " ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	var failures []error
	for name, text := range map[string]string{dataFile: string(data) + "\n", pageFile: report.Markdown(plotFile),
		plotFile: report.SVG()} {
		failures = append(failures, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644))
	}
	if err := errors.Join(failures...); err != nil {
		return fmt.Errorf("cannot write the results: %w", err)
	}
	for _, run := range report.Runs {
		for _, v := range run.Judge() {
			fmt.Printf("%5d  %-6s  %s: %s (budget %s)\n", run.Applications, v.Met, v.What, v.Figure, v.Budget)
		}
	}
	return nil
}

// again writes page and plot from results of before.
func again(s settings) error {
	data, err := os.ReadFile(s.render)
	if err != nil {
		return fmt.Errorf("cannot read results: %w", err)
	}
	var report result.Report
	if err := json.Unmarshal(data, &report); err != nil {
		return fmt.Errorf("cannot read results from %q: %w", s.render, err)
	}
	return write(s.out, report)
}
