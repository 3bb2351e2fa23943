// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// workflowVersion is the API of Workflows, which are a kind of the batch operator.
const workflowVersion = "batch.zeroinfra.github.com/v1"

func workflowCommand() *cobra.Command {
	command := &cobra.Command{Use: "workflow", Short: "Look at Workflows"}
	command.AddCommand(graphCommand())
	return command
}

func graphCommand() *cobra.Command {
	var from cluster
	var file, format string
	command := &cobra.Command{
		Use:   "graph [NAME | -f FILE]",
		Short: "Print the tasks of a Workflow, what each depends on, and how far it is, as a table or a picture",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 1) == (file != "") {
				return fmt.Errorf("name a Workflow, or a file with one by -f")
			}
			show := map[string]func(io.Writer, *unstructured.Unstructured) error{"text": printGraph, "svg": drawGraph}[format]
			if show == nil {
				return fmt.Errorf("--output is %q: it takes text and svg", format)
			}
			wf := &unstructured.Unstructured{}
			if file != "" {
				data, err := readInput(file, cmd.InOrStdin())
				if err != nil {
					return err
				}
				if err := yaml.Unmarshal(data, &wf.Object); err != nil {
					return fmt.Errorf("%s: cannot read YAML: %w", file, err)
				}
				return show(cmd.OutOrStdout(), wf)
			}
			if err := from.get(cmd.Context(), cmd.ErrOrStderr(), args[0], wf); err != nil {
				return err
			}
			return show(cmd.OutOrStdout(), wf)
		},
	}
	from.bind(command.Flags())
	command.Flags().StringVarP(&file, "file", "f", "", "file with a Workflow; - is the standard input")
	command.Flags().StringVarP(&format, "output", "o", "text", "text, or svg for a picture")
	return command
}

// get reads a Workflow of the cluster, with the tasks of its template where it has none of its own.
func (c *cluster) get(ctx context.Context, stderr io.Writer, name string, wf *unstructured.Unstructured) error {
	reader, namespace, err := c.connect(stderr)
	if err != nil {
		return err
	}
	read := func(name string, into *unstructured.Unstructured) error {
		into.SetAPIVersion(workflowVersion)
		into.SetKind("Workflow")
		return reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, into)
	}
	if err := read(name, wf); err != nil {
		return fmt.Errorf("cannot read Workflow %q: %w", name, err)
	}
	template, found, _ := unstructured.NestedString(wf.Object, "spec", "templateFrom", "name")
	if !found {
		return nil
	}
	of := &unstructured.Unstructured{}
	if err := read(template, of); err != nil {
		return fmt.Errorf("cannot read Workflow %q, which it has its tasks from: %w", template, err)
	}
	for _, field := range []string{"tasks", "onExit"} {
		if tasks, found, _ := unstructured.NestedSlice(of.Object, "spec", field); found {
			if err := unstructured.SetNestedSlice(wf.Object, tasks, "spec", field); err != nil {
				return err
			}
		}
	}
	return nil
}

// node is one task.
type node struct {
	name, state, message string
	// after are what it depends on, with the phases that it wants.
	after []string
	needs []string
	level int
}

// nodesOf are the tasks of a Workflow, each after those that it depends on. Tasks in a cycle come last.
func nodesOf(wf *unstructured.Unstructured) []*node {
	states := map[string]map[string]any{}
	for _, task := range mapsAt(wf.Object, "status", "tasks") {
		states[fmt.Sprint(task["name"])] = task
	}
	var all, placed []*node
	add := func(task map[string]any) *node {
		n := &node{name: fmt.Sprint(task["name"]), state: "-"}
		if state := states[n.name]; state != nil {
			n.state = fmt.Sprint(state["phase"])
			n.message, _ = state["message"].(string)
			if items, ok := state["items"].(string); ok {
				n.state += " " + items
			}
		}
		all = append(all, n)
		return n
	}
	for _, task := range mapsAt(wf.Object, "spec", "tasks") {
		n := add(task)
		for _, d := range mapsAt(task, "dependsOn") {
			name := fmt.Sprint(d["name"])
			n.needs = append(n.needs, name)
			if phases, _, _ := unstructured.NestedStringSlice(d, "phases"); len(phases) > 0 {
				name += " (" + strings.Join(phases, ", ") + ")"
			}
			n.after = append(n.after, name)
		}
	}
	tasks := len(all)
	for _, task := range mapsAt(wf.Object, "spec", "onExit") {
		n := add(task)
		n.after = []string{"the end"}
	}
	for range tasks {
		for _, n := range all[:tasks] {
			if !slices.Contains(placed, n) && place(n, placed) {
				placed = append(placed, n)
			}
		}
	}
	for _, n := range all {
		if !slices.Contains(placed, n) {
			placed = append(placed, n)
		}
	}
	return placed
}

// place says whether all that a task needs is placed, and sets its level to one below those.
func place(n *node, placed []*node) bool {
	for _, need := range n.needs {
		i := slices.IndexFunc(placed, func(other *node) bool { return other.name == need })
		if i < 0 {
			return false
		}
		n.level = max(n.level, placed[i].level+1)
	}
	return true
}

// mapsAt is a list of objects; what is none is left out.
func mapsAt(object map[string]any, path ...string) []map[string]any {
	list, _, _ := unstructured.NestedFieldNoCopy(object, path...)
	items, _ := list.([]any)
	var all []map[string]any
	for _, item := range items {
		if one, ok := item.(map[string]any); ok {
			all = append(all, one)
		}
	}
	return all
}

// checkWorkflow refuses an object of another kind.
func checkWorkflow(wf *unstructured.Unstructured) error {
	if wf.GetKind() != "Workflow" || wf.GetAPIVersion() != workflowVersion {
		return fmt.Errorf("it is a %s of %s, and no Workflow of %s", wf.GetKind(), wf.GetAPIVersion(), workflowVersion)
	}
	return nil
}

// printGraph prints one line for each task, indented by how many come before it.
func printGraph(out io.Writer, wf *unstructured.Unstructured) error {
	if err := checkWorkflow(wf); err != nil {
		return err
	}
	phase, found, _ := unstructured.NestedString(wf.Object, "status", "phase")
	progress, _, _ := unstructured.NestedString(wf.Object, "status", "progress")
	if found {
		fmt.Fprintf(out, "Workflow %s: %s\n", wf.GetName(), strings.TrimSpace(phase+" "+progress))
	}
	var table bytes.Buffer
	w := tabwriter.NewWriter(&table, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "TASK\tSTATE\tAFTER\tMESSAGE")
	for _, n := range nodesOf(wf) {
		fmt.Fprintf(w, "%s%s\t%s\t%s\t%s\n", strings.Repeat("  ", n.level), n.name, n.state, strings.Join(n.after, ", "),
			n.message)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(table.String()) {
		fmt.Fprintln(out, strings.TrimRight(line, " \n"))
	}
	return nil
}
