// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// Samples are the objects of an operator's samples in the namespace of a test.
type Samples struct {
	*Namespace
	// Folder is where the samples are.
	Folder  string
	objects []unstructured.Unstructured
}

// Kubectl runs kubectl in the namespace of the test, and returns what it printed.
func (s *Namespace) Kubectl(arguments ...string) string {
	s.Helper()
	command := exec.CommandContext(s.Ctx, "kubectl", append([]string{"--namespace", s.Name}, arguments...)...)
	command.Env = append(os.Environ(), "KUBECONFIG="+Config.Kubeconfig)
	var out, problem bytes.Buffer
	command.Stdout, command.Stderr = &out, &problem
	if err := command.Run(); err != nil {
		s.Fatalf("cannot run \"kubectl %s\": %v: %s", strings.Join(arguments, " "), err, problem.String())
	}
	return out.String()
}

// operators are what tests have installed: one test at a time installs, and the last user of one removes it when any
// test has failed.
var operators = struct {
	sync.Mutex
	users  map[string]int
	failed map[string]bool
}{users: map[string]int{}, failed: map[string]bool{}}

// NewNamespaceWithOperator makes a namespace and installs an operator, which leads then. Tests that run side by side
// use it together. When one of them fails, the operator stays until they have ended and nothing is left of that test's
// namespace to clear away.
func NewNamespaceWithOperator(t *testing.T, operator string) *Namespace {
	t.Helper()
	var s *Namespace
	t.Cleanup(func() {
		if s != nil {
			leave(t, operator, s.Name)
		}
	})
	s = newNamespace(t, "smoke-"+strings.TrimSuffix(operator, "-operator"))
	operators.Lock()
	defer operators.Unlock()
	operators.users[operator]++
	s.MustInstall(operator)
	s.Eventually(LeaderTimeout, operator+" has a leader", func() error {
		_, err := LeaderOf(s.Ctx, operator)
		return err
	})
	return s
}

// leave ends a test's use of an operator.
func leave(t *testing.T, operator, namespace string) {
	t.Helper()
	ctx := context.Background()
	if t.Failed() && !Config.KeepNamespaces {
		what := "namespace " + namespace + " goes away"
		if _, err := Poll(ctx, RemovalTimeout, what, func() error { return NamespaceGone(ctx, namespace) }); err != nil {
			t.Log(err)
		}
	}
	operators.Lock()
	defer operators.Unlock()
	operators.users[operator]--
	operators.failed[operator] = operators.failed[operator] || t.Failed()
	if operators.users[operator] > 0 || !operators.failed[operator] || Config.KeepNamespaces {
		return
	}
	delete(operators.failed, operator)
	if err := Uninstall(ctx, operator); err != nil {
		t.Log(err)
	}
}

// UninstallOperator removes an operator, and waits until its pods are gone.
func (s *Namespace) UninstallOperator(operator string) {
	s.Helper()
	s.MustUninstall(operator)
	s.Eventually(SettleTimeout, "the pods of "+operator+" are gone", func() error {
		pods, err := PodsOf(s.Ctx, operator)
		if err == nil && len(pods) > 0 {
			err = fmt.Errorf("there are %d", len(pods))
		}
		return err
	})
}

// ApplySamplesOf applies the samples of an operator as a person does, and waits until each is ready.
func (s *Namespace) ApplySamplesOf(operator string) *Samples {
	s.Helper()
	all := &Samples{Namespace: s, Folder: filepath.Join(Config.RepositoryDir, operator, "config/samples")}
	applied := &unstructured.Unstructured{}
	if err := applied.UnmarshalJSON([]byte(s.Kubectl("apply", "-k", all.Folder, "-o", "json"))); err != nil {
		s.Fatalf("cannot read what kubectl applied of %s: %v", all.Folder, err)
	}
	all.objects = append(all.objects, *applied)
	if applied.IsList() {
		list, err := applied.ToList()
		if err != nil {
			s.Fatal(err)
		}
		all.objects = list.Items
	}
	for i := range all.objects {
		object := &all.objects[i]
		took := s.WaitForReady(object)
		s.Logf("%s %q is ready, %s after the one before", object.GetKind(), object.GetName(), FormatSeconds(took))
	}
	return all
}

// Names are those of the samples of a kind. There is one at least.
func (all *Samples) Names(kind string) []string {
	all.Helper()
	var names []string
	for i := range all.objects {
		if all.objects[i].GetKind() == kind {
			names = append(names, all.objects[i].GetName())
		}
	}
	if len(names) == 0 {
		all.Fatalf("among the samples in %s is no %s", all.Folder, kind)
	}
	return names
}

// DeleteAll deletes the samples, and waits until they are gone with all Applications and pods that came of them.
func (all *Samples) DeleteAll() {
	all.Helper()
	all.Kubectl("delete", "-k", all.Folder, "--wait=true", "--timeout="+RemovalTimeout.String())
	for i := range all.objects {
		object := &all.objects[i]
		if err := ErrUnlessNotFound(Cluster.Client.Get(all.Ctx, client.ObjectKeyFromObject(object), object)); err != nil {
			all.Errorf("sample %s %q: %v", object.GetKind(), object.GetName(), err)
		}
	}
	all.Eventually(RemovalTimeout, "what came of the samples is gone", func() error {
		var left []string
		for _, list := range []client.ObjectList{&platformv1.ApplicationList{}, &corev1.PodList{}} {
			if err := Cluster.Client.List(all.Ctx, list, client.InNamespace(all.Name)); err != nil {
				return err
			}
			switch l := list.(type) {
			case *platformv1.ApplicationList:
				for i := range l.Items {
					left = append(left, "Application "+l.Items[i].Name)
				}
			case *corev1.PodList:
				for i := range l.Items {
					if l.Items[i].Labels[platformv1.ApplicationLabel] != "" {
						left = append(left, "pod "+l.Items[i].Name)
					}
				}
			}
		}
		if len(left) > 0 {
			return errors.New("there are " + strings.Join(left, ", "))
		}
		return nil
	})
}

// RestartTarget has an Operation restart a target, and waits for its success.
func (s *Namespace) RestartTarget(target platformv1.TargetReference) {
	s.Helper()
	s.Create(NewRestartOperation("restart", target))
	s.ExpectOperationSucceeded("restart")
}

// ExpectReadBack writes a value with a client and reads it back.
func (s *Namespace) ExpectReadBack(write func(key, value string) error, read func(key string) (string, error)) {
	s.Helper()
	const key, want = "greeting", "hello"
	s.Eventually(SettleTimeout, "a value is written", func() error { return write(key, want) })
	var got string
	s.Eventually(SettleTimeout, "a value is read", func() (err error) {
		got, err = read(key)
		return err
	})
	if got != want {
		s.Errorf("%s is %q, want %q", key, got, want)
	}
}
