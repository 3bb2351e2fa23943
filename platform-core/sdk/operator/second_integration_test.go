// SPDX-License-Identifier: Apache-2.0

//go:build integration

package operator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/operator"
	"github.com/zeroinfra/platform-core/sdk/testkit"
	"github.com/zeroinfra/platform-core/sdk/testkit/example"
)

// TestASecondOperatorStandsBy proves that of two operators of one domain in different namespaces one acts: the other
// lives, is not ready, names the first in its probe and its log, writes nothing, and takes over when that one is dead
// or uninstalled.
func TestASecondOperatorStandsBy(t *testing.T) {
	one, two := env.Namespace(t), env.Namespace(t)
	first := run(t, one)
	first.waitReady()
	waitRegistered(t, one)
	second := run(t, two, "--watch-namespaces="+one+","+two)
	second.standsByFor(one)
	create(t, "of-the-first")
	second.standsByFor(one)
	found, err := env.Accesses(second.account.User)
	if err != nil || len(found) == 0 {
		t.Fatalf("it asked for %v, %v", found, err)
	}
	for access := range found {
		if !slices.Contains([]string{"get", "list", "watch"}, access.Verb) {
			t.Errorf("it was to write nothing, and did %+v", access)
		}
	}
	expectNothingDenied(t, second)

	first.end(syscall.SIGKILL)
	second.waitReady()
	waitRegistered(t, two)
	again := run(t, one)
	again.standsByFor(two)

	// An uninstalled operator leaves nothing to wait for.
	if code := second.end(syscall.SIGTERM); code != 0 {
		t.Errorf("the second operator ended with code %d after SIGTERM", code)
	}
	hook := operator.Command(operator.Options{Domain: "database"})
	hook.SetArgs([]string{"prepare-uninstall", "--namespace=" + two, "--watch-namespaces=" + two, "--deployment=gone",
		"--force", "--kubeconfig=" + env.Kubeconfig(t)})
	if err := hook.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	again.waitReady()
	waitRegistered(t, one)
	expectNothingDenied(t, again)
}

// Operators of one domain whose namespaces do not overlap both work.
func TestOperatorsOfOtherNamespacesBothWork(t *testing.T) {
	for _, name := range []string{"one", "two"} {
		namespace, served := env.Namespace(t), env.Namespace(t)
		p := run(t, namespace, "--watch-namespaces="+served)
		p.waitReady()
		waitRegistered(t, namespace)
		s := &example.Sample{ObjectMeta: metav1.ObjectMeta{Namespace: served, Name: name}}
		s.Spec.Version = "7.0"
		if err := env.Client.Create(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		testkit.WaitForCondition(t, env.Client, s, platformv1.StalledCondition, metav1.ConditionTrue)
	}
}

// waitRegistered waits until the operator in a namespace is registered.
func waitRegistered(t *testing.T, namespace string) {
	t.Helper()
	lease := registry()
	testkit.WaitFor(t, env.Client, lease, "has the operator in namespace "+namespace, func() error {
		if lease.Annotations["operator.platform.zeroinfra.github.com/"+namespace] == "" {
			return fmt.Errorf("it has %v", lease.Annotations)
		}
		return nil
	})
}

// standsByFor waits until the operator lives, is not ready, and names the one in a namespace in its probe and its log.
func (p *process) standsByFor(namespace string) {
	p.Helper()
	named := fmt.Sprintf("the database operator in namespace %q", namespace)
	testkit.Eventually(p, "it stands by for "+namespace, func(ctx context.Context) error {
		if _, err := testkit.Get(ctx, "http://"+p.health+"/healthz"); err != nil {
			return err
		}
		_, err := testkit.Get(ctx, "http://"+p.health+"/readyz")
		if err == nil {
			return errors.New("it is ready")
		}
		if !strings.Contains(err.Error(), named) {
			return err
		}
		if text := p.output.String(); !strings.Contains(text, "standing by") || !strings.Contains(text, namespace) {
			return errors.New("its log does not say so")
		}
		return nil
	})
}
