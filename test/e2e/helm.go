// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// helm runs helm in the operator's namespace.
func helm(ctx context.Context, arguments ...string) error {
	command := exec.CommandContext(ctx, set.helm, append(arguments, "--namespace", operatorNamespace)...)
	command.Env = append(os.Environ(), "KUBECONFIG="+set.kubeconfig)
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	if err := command.Run(); err != nil {
		return fmt.Errorf("cannot run \"helm %s\": %w: %s", strings.Join(arguments, " "), err, out.String())
	}
	return nil
}

// install installs or upgrades a chart of the suite under its own name and waits until its pods are ready.
func install(ctx context.Context, chart string, values ...string) error {
	return installFrom(ctx, set.charts, chart, values...)
}

// installFrom is install for a chart in another folder.
func installFrom(ctx context.Context, charts, chart string, values ...string) error {
	arguments := []string{"upgrade", "--install", chart, filepath.Join(charts, chart), "--create-namespace", "--reset-values", "--wait", "--timeout", "6m"}
	if set.values != "" {
		arguments = append(arguments, "--values", filepath.Join(charts, chart, set.values))
	}
	arguments = append(arguments, set.helmArgs...)
	for _, value := range values {
		arguments = append(arguments, "--set", value)
	}
	return helm(ctx, arguments...)
}

// uninstall removes a release and waits until its objects are gone. An absent release is fine.
func uninstall(ctx context.Context, chart string) error {
	return helm(ctx, "uninstall", chart, "--wait", "--ignore-not-found", "--timeout", "6m")
}

// mustInstall is install for tests.
func (s *space) mustInstall(chart string, values ...string) {
	s.Helper()
	if err := install(s.ctx, chart, values...); err != nil {
		s.Fatal(err)
	}
	if chart == operatorName {
		if err := operatorServes(s.ctx); err != nil {
			s.Fatal(err)
		}
	}
}

// mustUninstall is uninstall for tests.
func (s *space) mustUninstall(chart string) {
	s.Helper()
	if err := uninstall(s.ctx, chart); err != nil {
		s.Fatal(err)
	}
}

// restoreOperator has the operator as it was installed for all tests, once this one is over.
func (s *space) restoreOperator() {
	s.Helper()
	s.Cleanup(func() {
		ctx := context.Background()
		if err := install(ctx, operatorName); err != nil {
			s.Error(err)
		}
		if err := operatorServes(ctx); err != nil {
			s.Error(err)
		}
	})
}
