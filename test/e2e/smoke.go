// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// samples are the objects of an operator's samples in the namespace of a test.
type samples struct {
	*space
	folder  string
	objects []unstructured.Unstructured
}

// kubectl runs kubectl in the namespace of the test, and returns what it printed.
func (s *space) kubectl(arguments ...string) string {
	s.Helper()
	command := exec.CommandContext(s.ctx, "kubectl", append([]string{"--namespace", s.name}, arguments...)...)
	command.Env = append(os.Environ(), "KUBECONFIG="+set.kubeconfig)
	var out, problem bytes.Buffer
	command.Stdout, command.Stderr = &out, &problem
	if err := command.Run(); err != nil {
		s.Fatalf("cannot run \"kubectl %s\": %v: %s", strings.Join(arguments, " "), err, problem.String())
	}
	return out.String()
}

// installed makes a namespace and installs an operator, which leads then. When the test fails, the operator stays until
// nothing of the namespace is left that it has to clear away.
func installed(t *testing.T, operator string) *space {
	t.Helper()
	var s *space
	t.Cleanup(func() {
		if !t.Failed() || s == nil || set.keep {
			return
		}
		ctx := context.Background()
		_, err := poll(ctx, removalIn, "namespace "+s.name+" goes away", func() error { return namespaceGone(ctx, s.name) })
		if err != nil {
			t.Log(err)
		}
		if err := uninstall(ctx, operator); err != nil {
			t.Log(err)
		}
	})
	s = newSpace(t, "smoke-"+strings.TrimSuffix(operator, "-operator"))
	s.mustInstall(operator)
	s.eventually(leaderIn, operator+" has a leader", func() error {
		_, err := leaderOf(s.ctx, operator)
		return err
	})
	return s
}

// uninstalls removes an operator, and waits until its pods are gone.
func (s *space) uninstalls(operator string) {
	s.Helper()
	s.mustUninstall(operator)
	s.eventually(settleIn, "the pods of "+operator+" are gone", func() error {
		pods, err := podsOf(s.ctx, operator)
		if err == nil && len(pods) > 0 {
			err = fmt.Errorf("there are %d", len(pods))
		}
		return err
	})
}

// applySamplesOf applies the samples of an operator as a person does, and waits until each is ready.
func (s *space) applySamplesOf(operator string) *samples {
	s.Helper()
	all := &samples{space: s, folder: filepath.Join(set.repository, operator, "config/samples")}
	applied := &unstructured.Unstructured{}
	if err := applied.UnmarshalJSON([]byte(s.kubectl("apply", "-k", all.folder, "-o", "json"))); err != nil {
		s.Fatalf("cannot read what kubectl applied of %s: %v", all.folder, err)
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
		took := s.eventually(readyIn, fmt.Sprintf("sample %s %q is ready", object.GetKind(), object.GetName()), func() error {
			if err := world.client.Get(s.ctx, client.ObjectKeyFromObject(object), object); err != nil {
				return err
			}
			return currentNow(object)
		})
		s.Logf("%s %q is ready, %s after the one before", object.GetKind(), object.GetName(), seconds(took))
	}
	return all
}

// names are those of the samples of a kind. There is one at least.
func (all *samples) names(kind string) []string {
	all.Helper()
	var names []string
	for i := range all.objects {
		if all.objects[i].GetKind() == kind {
			names = append(names, all.objects[i].GetName())
		}
	}
	if len(names) == 0 {
		all.Fatalf("among the samples in %s is no %s", all.folder, kind)
	}
	return names
}

// delete deletes the samples, and waits until they are gone with all Applications and pods that came of them.
func (all *samples) delete() {
	all.Helper()
	all.kubectl("delete", "-k", all.folder, "--wait=true", "--timeout="+removalIn.String())
	for i := range all.objects {
		object := &all.objects[i]
		if err := gone(world.client.Get(all.ctx, client.ObjectKeyFromObject(object), object)); err != nil {
			all.Errorf("sample %s %q: %v", object.GetKind(), object.GetName(), err)
		}
	}
	all.eventually(removalIn, "what came of the samples is gone", func() error {
		var left []string
		for _, list := range []client.ObjectList{&platformv1.ApplicationList{}, &corev1.PodList{}} {
			if err := world.client.List(all.ctx, list, client.InNamespace(all.space.name)); err != nil {
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

// restarts has an Operation restart a target, and waits for its success.
func (s *space) restarts(target platformv1.TargetReference) {
	s.Helper()
	s.create(restartOf("restart", target))
	s.succeeded("restart")
}

// boundClient is a client that goes by the binding alone, and connects to where the Service leads then.
func (i *instance) boundClient(w *ways) *redis.Client {
	i.Helper()
	a := i.account()
	c := redis.NewClient(&redis.Options{
		Addr: net.JoinHostPort(a.host, a.port), Username: a.username, Password: a.password,
		Protocol: 2, DisableIdentity: true,
		MaxRetries: -1, DialerRetries: 1, PoolSize: 2, DialTimeout: answerIn, ReadTimeout: answerIn,
		Dialer: func(ctx context.Context, network, address string) (conn net.Conn, err error) {
			// While it leads nowhere, nobody asks as fast as that is answered.
			_, err = poll(ctx, answerIn, "the Service leads somewhere", func() (failed error) {
				conn, failed = w.dialService(ctx, network, address)
				return failed
			})
			return conn, err
		},
	})
	i.Cleanup(func() { _ = c.Close() })
	return c
}
