// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/agentclient"
	"github.com/zeroinfra/platform-core/internal/pki"
	"github.com/zeroinfra/platform-core/internal/testagents"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// secretOf reads a Secret.
func secretOf(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	return secret, env.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, secret)
}

// signedBy waits until each pod of a namespace has a certificate of an authority, and trusts that alone.
func signedBy(t *testing.T, authority *corev1.Secret, namespace string) {
	t.Helper()
	known, err := pki.Parse("database", authority.Data)
	if err != nil {
		t.Fatal(err)
	}
	for pod := range uids(t, namespace) {
		testkit.Eventually(t, "the certificate of "+pod, func(ctx context.Context) error {
			secret, err := secretOf(ctx, namespace, platformv1.AgentCertificateNameFor(pod))
			if err != nil {
				return err
			}
			if !bytes.Equal(secret.Data[corev1.ServiceAccountRootCAKey], known.Bundle()) {
				return fmt.Errorf("it trusts somebody else")
			}
			return known.VerifyServer(secret.Data[corev1.TLSCertKey], pki.AgentServerName(pod, namespace), time.Now())
		})
	}
}

// uncalled checks that nobody has asked anything of the process of a pod: it was started once.
func uncalled(t *testing.T, authority *corev1.Secret, pod *corev1.Pod) {
	t.Helper()
	known, err := pki.Parse("database", authority.Data)
	if err != nil {
		t.Fatal(err)
	}
	connections := agentclient.New(known)
	t.Cleanup(connections.Close)
	process, err := connections.Dial(t.Context(), pod)
	if err != nil {
		t.Fatal(err)
	}
	status, err := process.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if status.GetStarts() != 1 || status.GetLastCall() != nil {
		t.Errorf("it was started %d times, and the last call is %v", status.GetStarts(), status.GetLastCall())
	}
}

// An authority that is lost while no operator runs is made anew: every pod of every set gets a certificate of the new
// one, none is replaced and no process restarts, though nobody can be called until its kubelet has brought it.
func TestALostAuthorityIsReissued(t *testing.T) {
	namespace, aside := env.Namespace(t), env.Namespace(t)
	_, _, stop := run(t, -1)
	nodeAt(t, namespace, testagents.Address())
	node(t, aside)
	app := application(namespace)
	ownMemory(&app.Spec)
	app.Spec.Components[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")}
	other := shop(aside, "a", "tiers")
	for _, one := range []*platformv1.Application{app, other} {
		create(t, one)
		testkit.WaitForReady(t, env.Client, one)
	}
	agent := manage(t, podOf(t, app))
	agent.uses(60)
	// It is refused where the agent says how much its process uses, and goes through where that cannot be asked.
	reached := func(name string) error {
		t.Helper()
		op := operate(t, app, name, "VerticalScaleResource", func(s *platformv1.OperationSpec) { s.DryRun = true }, "memory",
			"64Mi")
		testkit.WaitFor(t, env.Client, op, "the end", func() error {
			if op.Status.CompletionTime == nil {
				return fmt.Errorf("it is %s", op.Status.Phase)
			}
			return nil
		})
		if !strings.Contains(op.Status.Error, "uses 60Mi of memory now") {
			return fmt.Errorf("it is %s: %q", op.Status.Phase, op.Status.Error)
		}
		return nil
	}
	if err := reached("before"); err != nil {
		t.Fatal(err)
	}
	lost, err := secretOf(t.Context(), system, pki.SecretName("database"))
	if err != nil {
		t.Fatal(err)
	}
	signedBy(t, lost, namespace)
	signedBy(t, lost, aside)
	before := map[string]map[string]types.UID{namespace: uids(t, namespace), aside: uids(t, aside)}
	if len(before[aside]) < 3 {
		t.Fatalf("there are the pods %v", before[aside])
	}
	stop()
	if err := env.Client.Delete(t.Context(),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: lost.Name}}); err != nil {
		t.Fatal(err)
	}
	run(t, -1)
	var found *corev1.Secret
	testkit.Eventually(t, "another authority", func(ctx context.Context) (err error) {
		found, err = secretOf(ctx, system, lost.Name)
		return err
	})
	if bytes.Equal(found.Data[corev1.TLSCertKey], lost.Data[corev1.TLSCertKey]) {
		t.Error("it is the one that was lost")
	}
	signedBy(t, found, namespace)
	signedBy(t, found, aside)
	if err := reached("meanwhile"); err == nil {
		t.Error("an agent is reached that knows the authority that was lost alone")
	}
	agent.certify(podOf(t, app))
	attempts := 0
	testkit.Eventually(t, "the agent is reached again", func(context.Context) error {
		attempts++
		return reached(fmt.Sprintf("after-%d", attempts))
	})
	uncalled(t, found, podOf(t, app))
	for _, one := range []*platformv1.Application{app, other} {
		testkit.WaitForReady(t, env.Client, one)
		if got := uids(t, one.Namespace); !maps.Equal(got, before[one.Namespace]) {
			t.Errorf("the pods are %v, before %v", got, before[one.Namespace])
		}
	}
}
