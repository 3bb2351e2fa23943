// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/testagents"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// manage runs the real process manager of a pod at its address, with the certificate that the engine has made for it. Its container uses what
// the function that is returned says, in MiB.
func manage(t *testing.T, pod *corev1.Pod) (uses func(mebibytes int), stop func()) {
	t.Helper()
	agent, err := testagents.Build(t.TempDir(), "agent")
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(plan.Plan{Version: 1, Digest: "sha256:" + strings.Repeat("0", 64), Process: plan.Process{Command: []string{"sleep", "infinity"}}})
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{}
	if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: pod.Namespace, Name: platformv1.AgentCertificateNameFor(pod.Name)}, secret); err != nil {
		t.Fatal(err)
	}
	folders := testagents.NewPod(t, testagents.Authority(t, "database"), pod.Namespace, pod.Name, text)
	for name, data := range secret.Data {
		folders.Write(data, "tls", name)
	}
	uses = func(mebibytes int) {
		folders.Write([]byte("0"), "cgroup", "memory.current")
		folders.Write(fmt.Appendf(nil, "anon %d\nfile 1073741824\n", mebibytes<<20), "cgroup", "memory.stat")
	}
	address := net.JoinHostPort(pod.Status.PodIP, fmt.Sprint(plan.ProcessPort))
	stop = folders.Start(agent, []string{"POD_NAME=" + pod.Name}, "run", "--tls-dir", folders.Path("tls"), "--cgroup-dir", folders.Path("cgroup"), "--listen", address)
	testkit.Eventually(t, "the process manager of "+pod.Name, func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return conn.Close()
	})
	return uses, stop
}

// TestMemoryThatIsInUseIsNotTaken: an Operation that would have processes killed for memory is refused before anything is touched, as the
// agents' word is now. Of pods that nobody reaches nothing is known, and they hold nothing up.
func TestMemoryThatIsInUseIsNotTaken(t *testing.T) {
	namespace := env.Namespace(t)
	run(t, -1)
	nodeAt(t, namespace, testagents.Address())
	app := application(namespace)
	ownMemory(&app.Spec)
	app.Spec.Components[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")}
	create(t, app)
	testkit.WaitForReady(t, env.Client, app)
	uses, stop := manage(t, onlyPod(t, namespace))

	uses(60)
	generation := app.Generation
	const says = "pod redis-a-redis-main-0 uses 60Mi of memory now, and a limit of 64Mi is asked for: the least that would do is 66Mi"
	for name, change := range map[string]func(*platformv1.OperationSpec){"squeeze": nil, "foretell": func(s *platformv1.OperationSpec) { s.DryRun = true }} {
		if status := ends(t, operate(t, app, name, "VerticalScaleResource", change, "memory", "64Mi"), platformv1.OperationFailed); !strings.Contains(status.Error, says) {
			t.Errorf("%s: it says %q; want %q", name, status.Error, says)
		}
	}
	if refresh(t, app); app.Generation != generation {
		t.Errorf("the Application was changed: generation %d, before %d", app.Generation, generation)
	}
	ends(t, operate(t, app, "fit", "VerticalScaleResource", nil, "memory", "66Mi"), platformv1.OperationSucceeded)
	uses(65)
	ends(t, operate(t, app, "grow", "VerticalScaleResource", nil, "memory", "128Mi"), platformv1.OperationSucceeded)
	stop()
	ends(t, operate(t, app, "unasked", "VerticalScaleResource", nil, "memory", "64Mi"), platformv1.OperationSucceeded)
}
