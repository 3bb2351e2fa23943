// SPDX-License-Identifier: Apache-2.0

// Command gate runs stages of tests, which are make targets, one after another, and ends with a table of them and what
// failed.
//
//	gate [run] [--summary FILE] [--logs FOLDER] [--keep-going] STAGE...
//
// A stage that fails ends the run, unless --keep-going is set or CI is in the environment, where nobody is there to run
// the next one. When the stage "deps" fails, none is run after it. The summary is written as JSON at the end, also of a
// run that is interrupted; one that is killed leaves none.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// options are the flags of a run.
type options struct {
	summary   string
	logs      string
	keepGoing bool
	stages    []string
}

func main() {
	o, err := parse(os.Args[1:])
	if err != nil {
		os.Exit(2)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer cancel()
	root, err := os.Getwd()
	passed := false
	if err == nil {
		passed, err = (&gate{options: o, root: root, out: os.Stdout, needs: needs}).run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gate:", err)
	}
	if err != nil || !passed {
		os.Exit(1)
	}
}

// parse reads the arguments, and prints what is wrong with them.
func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("gate", flag.ContinueOnError)
	flags.StringVar(&o.summary, "summary", "bin/test-summary.json", "file that the summary is written to")
	flags.StringVar(&o.logs, "logs", "bin/test", "folder for the output and the test events of each stage")
	flags.BoolVar(&o.keepGoing, "keep-going", os.Getenv("CI") != "", "run the other stages after one that failed")
	flags.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: gate [run] [--summary FILE] [--logs FOLDER] [--keep-going] STAGE...")
		flags.PrintDefaults()
	}
	if len(args) > 0 && args[0] == "run" {
		args = args[1:]
	}
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.stages = flags.Args(); len(o.stages) == 0 {
		flags.Usage()
		return o, flag.ErrHelp
	}
	return o, nil
}
