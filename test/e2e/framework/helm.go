// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Helm runs helm in the operator's namespace.
func Helm(ctx context.Context, arguments ...string) error {
	command := exec.CommandContext(ctx, Config.HelmPath, append(arguments, "--namespace", OperatorNamespace)...)
	command.Env = append(os.Environ(), "KUBECONFIG="+Config.Kubeconfig)
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	if err := command.Run(); err != nil {
		return fmt.Errorf("cannot run \"helm %s\": %w: %s", strings.Join(arguments, " "), err, out.String())
	}
	return nil
}

// Install installs or upgrades a chart of the suite under its own name and waits until its pods are ready.
func Install(ctx context.Context, chart string, values ...string) error {
	return InstallFrom(ctx, Config.ChartsDir, chart, values...)
}

// InstallFrom is Install for a chart in another folder.
func InstallFrom(ctx context.Context, charts, chart string, values ...string) error {
	return upgradeInstall(ctx, charts, chart, setArguments(values)...)
}

func upgradeInstall(ctx context.Context, charts, chart string, args ...string) error {
	arguments := []string{"upgrade", "--install", chart, filepath.Join(charts, chart), "--create-namespace",
		"--reset-values", "--wait", "--timeout", "6m"}
	if Config.ValuesFile != "" {
		arguments = append(arguments, "--values", filepath.Join(charts, chart, Config.ValuesFile))
	}
	return Helm(ctx, slices.Concat(arguments, Config.HelmArgs, args)...)
}

// setArguments has helm set each of the values, which are written "name=value".
func setArguments(values []string) []string {
	var arguments []string
	for _, value := range values {
		arguments = append(arguments, "--set", value)
	}
	return arguments
}

// Installed says whether there is a release of a chart.
func Installed(ctx context.Context, chart string) bool { return Helm(ctx, "status", chart) == nil }

// Uninstall removes a release and waits until its objects are gone. An absent release is fine.
func Uninstall(ctx context.Context, chart string) error {
	return Helm(ctx, "uninstall", chart, "--wait", "--ignore-not-found", "--timeout", "6m")
}

// MustInstall is Install for tests.
func (s *Namespace) MustInstall(chart string, values ...string) {
	s.Helper()
	if err := Install(s.Ctx, chart, values...); err != nil {
		s.Fatal(err)
	}
	if chart == OperatorName {
		if err := WaitForOperator(s.Ctx); err != nil {
			s.Fatal(err)
		}
	}
}

// MustUninstall is Uninstall for tests.
func (s *Namespace) MustUninstall(chart string) {
	s.Helper()
	if err := Uninstall(s.Ctx, chart); err != nil {
		s.Fatal(err)
	}
}

// RestoreOperatorAtEnd has the operator as it was installed for all tests, once this one is over.
func (s *Namespace) RestoreOperatorAtEnd() {
	s.Helper()
	s.Cleanup(func() {
		ctx := context.Background()
		if err := Install(ctx, OperatorName); err != nil {
			s.Error(err)
		}
		if err := WaitForOperator(ctx); err != nil {
			s.Error(err)
		}
	})
}
