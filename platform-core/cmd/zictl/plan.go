// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Ends of zictl plan, as of kubectl diff.
const (
	endChanges = 1
	endFailed  = 2
)

// exit ends the tool with a code of its own.
type exit struct {
	code int
	error
}

// Unwrap returns what happened.
func (e exit) Unwrap() error { return e.error }

// planFlags say what to plan, and where.
type planFlags struct {
	cluster

	files             []string
	output            string
	serverSide, force bool
	fieldManager      string
	patience          time.Duration
}

func planCommand() *cobra.Command {
	var flags planFlags
	command := &cobra.Command{
		Use:   "plan -f edited.yaml",
		Short: "Say what applying an object would do to pods, volumes and Services, and do nothing",
		Long: "Say what applying an Application, or an object that compiles to one, would do to pods, volumes and " +
			"Services, and do nothing of it. Of an Operation it says what the run would do.\n\n" +
			"The API server is asked for the object as it would be stored, and the operator, by an Operation of template Plan " +
			"that is a dry run and deleted at once, for what it would do then.\n" +
			"It ends with 0 when nothing would change, with 1 when something would, and with 2 when that cannot be said, or " +
			"the change would be refused.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			changes, err := flags.run(ctx, cmd)
			switch {
			case err != nil:
				return exit{endFailed, err}
			case changes:
				return exit{endChanges, errReported}
			}
			return nil
		},
	}
	f := command.Flags()
	f.StringArrayVarP(&flags.files, "file", "f", nil, "file with one or several objects; - is the standard input")
	flags.bind(f)
	f.StringVarP(&flags.output, "output", "o", "text", "format: text or json")
	f.BoolVar(&flags.serverSide, "server-side", false,
		"plan what kubectl apply --server-side would do, rather than kubectl apply")
	f.BoolVar(&flags.force, "force-conflicts", false, "with --server-side: take fields over that others own")
	f.StringVar(&flags.fieldManager, "field-manager", "kubectl", "field manager of an apply on the server's side")
	f.DurationVar(&flags.patience, "timeout", 30*time.Second, "how long to wait for the operator")
	cobra.CheckErr(command.MarkFlagRequired("file"))
	return command
}

// run plans every object of the files and prints what would be done. It says whether anything would.
func (f *planFlags) run(ctx context.Context, cmd *cobra.Command) (bool, error) {
	if f.output != "text" && f.output != "json" {
		return false, fmt.Errorf("cannot print as %q: the output is text or json", f.output)
	}
	objects, err := f.read(cmd.InOrStdin())
	if err != nil {
		return false, err
	}
	c, namespace, err := f.connect(cmd.ErrOrStderr())
	if err != nil {
		return false, err
	}
	p := &planner{client: c, flags: f, namespace: namespace}
	var plannedObjects []plannedObject
	for _, object := range objects {
		plannedObject, err := p.plan(ctx, object)
		if err != nil {
			return false, err
		}
		plannedObjects = append(plannedObjects, *plannedObject)
	}
	changes := false
	for i := range plannedObjects {
		changes = changes || plannedObjects[i].changes()
	}
	if f.output == "json" {
		encoder := json.NewEncoder(cmd.OutOrStdout())
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		return changes, encoder.Encode(map[string]any{"objects": plannedObjects})
	}
	for i := range plannedObjects {
		if i > 0 {
			fmt.Fprintln(cmd.OutOrStdout())
		}
		plannedObjects[i].print(cmd.OutOrStdout())
	}
	return changes, nil
}

// read returns the objects of all files, in order.
func (f *planFlags) read(stdin io.Reader) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for _, file := range f.files {
		data, err := readInput(file, stdin)
		if err != nil {
			return nil, err
		}
		found, err := readObjects(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		objects = append(objects, found...)
	}
	if len(objects) == 0 {
		return nil, errors.New("there is no object in the files")
	}
	return objects, nil
}
