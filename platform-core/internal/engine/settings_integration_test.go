// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/engine"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// renamed waits until the agents of a set are to put names of another domain in, and returns their plan.
func renamed(t *testing.T, set *platformv1.WorkloadSet, domain string) plan.Plan {
	t.Helper()
	var p plan.Plan
	testkit.WaitFor(t, env.Client, set, "names of "+domain, func() error {
		var err error
		if p, err = render.Plan(set); err == nil && !strings.HasSuffix(p.Domain, ".svc."+domain) {
			err = fmt.Errorf("they are of %s", p.Domain)
		}
		return err
	})
	return p
}

// lull is longer than what an engine does late: two seconds after one came, it counts the instances of a plugin, and
// that wakes all of them.
const lull = 3 * time.Second

// Another registry and another domain of the cluster count at once for an engine that runs: for pods that are made from
// then on, and for processes that run by such a name, which are restarted in their pods. Nothing else that runs is
// touched.
func TestRegistryAndDomainOfARunningEngine(t *testing.T) {
	namespace, app := standing(t, "tiers")
	named := shop(namespace, "n", "quorum")
	named.Spec.Components = []platformv1.ApplicationComponent{{Name: "quorum", Replicas: new(int32(1))}}
	create(t, named)
	testkit.WaitForReady(t, env.Client, named)
	web, quorum := aSet(namespace, "a-web-main"), aSet(namespace, "n-quorum-main")
	before, nameless, holding := standingIn(t, namespace), renamed(t, web, "cluster.local"),
		renamed(t, quorum, "cluster.local")

	t.Cleanup(func() { rendering.Use("", "") })
	rendering.Use("mirror.example.com", "corp.example")
	if p := renamed(t, web, "corp.example"); p.Digest != nameless.Digest ||
		!strings.Contains(string(web.Spec.Template.Raw), `"mirror.example.com/example/web:1.0"`) {
		t.Errorf("the set is rendered as %s, with digest %s and before %s", web.Spec.Template.Raw, p.Digest, nameless.Digest)
	}
	change(t, app, func(s *platformv1.ApplicationSpec) {
		s.Components = []platformv1.ApplicationComponent{{Name: "web", Replicas: new(int32(2))}}
	})
	replicasOf(t, app, web.Name, 2)
	for name, want := range map[string]string{"a-web-main-0": "example/web:1.0",
		"a-web-main-1": "mirror.example.com/example/web:1.0"} {
		pod := &corev1.Pod{}
		if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, pod); err != nil ||
			pod.Spec.Containers[0].Image != want {
			t.Errorf("pod %s has image %s, want %s: %v", name, pod.Spec.Containers[0].Image, want, err)
		}
	}

	p := renamed(t, quorum, "corp.example")
	if p.RestartDigest == holding.RestartDigest {
		t.Error("a process that runs by a name of the former domain is not restarted")
	}
	testkit.WaitFor(t, env.Client, quorum, "a restart of the process", func() error {
		if ready := conditions.Get(quorum, platformv1.ReadyCondition); ready.Reason != platformv1.ReasonConfigurationPending {
			return fmt.Errorf("it says %+v", ready)
		}
		return nil
	})
	pod := &corev1.Pod{}
	err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "n-quorum-main-0"}, pod)
	if err != nil {
		t.Fatal(err)
	}
	runsBy(t, pod, p)
	testkit.WaitForReady(t, env.Client, named)
	for name, uid := range standingIn(t, namespace) {
		if was, found := before[name]; found && was != uid {
			t.Errorf("%s is another one", name)
		}
		delete(before, name)
	}
	if len(before) > 0 {
		t.Errorf("there are no more %v", before)
	}
}

// A field that a GitOps tool writes is left to it, unless somebody insists. Who such a tool is, the operator says, and
// another word of it holds at once.
func TestOperationsRespectGitOps(t *testing.T) {
	app := served(t)
	claims := func(manager string) {
		t.Helper()
		body := []byte(`{"apiVersion":"platform.zeroinfra.github.com/v1","kind":"Application","spec":{"running":true}}`)
		if err := env.Client.Patch(t.Context(), app, client.RawPatch(types.ApplyPatchType, body), client.FieldOwner(manager),
			client.ForceOwnership); err != nil {
			t.Fatal(err)
		}
		testkit.WaitForReady(t, env.Client, app)
	}
	isRefused := func(name, manager string) {
		t.Helper()
		refused := ends(t, operate(t, app, name, "Stop", nil), platformv1.OperationFailed)
		if want := `spec.running of Application "redis-a" is managed by ` + manager; !strings.Contains(refused.Error, want) {
			t.Errorf("it says %q; want %q", refused.Error, want)
		}
	}
	claims("argocd-controller")
	isRefused("refused", "argocd-controller")
	ends(t, operate(t, app, "forced", "Stop", func(s *platformv1.OperationSpec) { s.Force = true }),
		platformv1.OperationSucceeded)

	claims("argocd-controller")
	t.Cleanup(func() { rendering.Respect(engine.GitOpsManagers()) })
	rendering.Respect([]string{"conductor"})
	ends(t, operate(t, app, "unknown", "Stop", nil), platformv1.OperationSucceeded)
	claims("conductor")
	isRefused("known", "conductor")
}
