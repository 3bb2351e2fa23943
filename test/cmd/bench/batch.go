// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/zeroinfra/test/bench/machine"
	"github.com/zeroinfra/test/bench/result"
)

// Files of the benches of the batch operator.
const (
	batchDataFile = "batch.json"
	batchPageFile = "batch.md"
	batchPlotFile = "batch.svg"
)

// recordBatch adds figures that the benches of the batch operator wrote to what is in the folder, and writes data, page
// and plot.
func recordBatch(ctx context.Context, s settings) error {
	var batch result.Batch
	data, err := os.ReadFile(filepath.Join(s.out, batchDataFile))
	if err == nil {
		err = json.Unmarshal(data, &batch)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot read former results: %w", err)
	}
	facts, err := machine.Facts(ctx, machine.Programs{KubernetesFolder: s.Assets, Commit: s.commit})
	if err != nil {
		return err
	}
	facts.Load = s.load
	for path, part := range map[string]**result.BatchRun{s.workflows: &batch.Workflows, s.cronJobs: &batch.CronJobs} {
		if path == "" {
			continue
		}
		run := &result.BatchRun{Machine: facts}
		data, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(data, &run.BatchFigures)
		}
		if err != nil {
			return fmt.Errorf("cannot read figures: %w", err)
		}
		*part = run
	}
	return writeBatch(s.out, batch)
}

// writeBatch writes data, page and plot.
func writeBatch(folder string, batch result.Batch) error {
	data, err := json.MarshalIndent(batch, "", " ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	var failures []error
	for name, text := range map[string]string{batchDataFile: string(data) + "\n",
		batchPageFile: batch.Markdown(batchPlotFile), batchPlotFile: batch.SVG()} {
		failures = append(failures, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644))
	}
	for _, v := range batch.Judge() {
		fmt.Printf("%-6s  %s: %s (budget %s)\n", v.Met, v.What, v.Figure, v.Budget)
	}
	return errors.Join(failures...)
}
