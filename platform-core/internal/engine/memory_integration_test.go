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

// managed is the folders of a pod with a real process manager, and what ends that.
type managed struct {
	*testagents.Pod
	stop func()
}

// manage runs the real process manager of a pod at its address, with the certificate that the engine has made for it.
func manage(t *testing.T, pod *corev1.Pod) *managed {
	t.Helper()
	agent, err := testagents.Build(t.TempDir(), "agent")
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(plan.Plan{Version: 1, Digest: "sha256:" + strings.Repeat("0", 64),
		Process: plan.Process{Command: []string{"sleep", "infinity"}}})
	if err != nil {
		t.Fatal(err)
	}
	m := &managed{Pod: testagents.NewPod(t, testagents.Authority(t, "database"), pod.Namespace, pod.Name, text)}
	m.certify(pod)
	address := net.JoinHostPort(pod.Status.PodIP, fmt.Sprint(plan.ProcessPort))
	m.stop = m.Start(agent, []string{"POD_NAME=" + pod.Name}, "run", "--tls-dir", m.Path("tls"), "--cgroup-dir",
		m.Path("cgroup"), "--listen", address)
	testkit.Eventually(t, "the process manager of "+pod.Name, func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return conn.Close()
	})
	return m
}

// certify brings the certificate that the engine has made for the pod by now, as a kubelet does.
func (m *managed) certify(pod *corev1.Pod) {
	m.Helper()
	secret := &corev1.Secret{}
	if err := env.Client.Get(m.Context(),
		client.ObjectKey{Namespace: pod.Namespace, Name: platformv1.AgentCertificateNameFor(pod.Name)}, secret); err != nil {
		m.Fatal(err)
	}
	for name, data := range secret.Data {
		m.Write(data, "tls", name)
	}
}

// uses has the container of the pod use so much memory that cannot be taken back.
func (m *managed) uses(mebibytes int) {
	m.Helper()
	m.Write([]byte("0"), "cgroup", "memory.current")
	m.Write(fmt.Appendf(nil, "anon %d\nfile 1073741824\n", mebibytes<<20), "cgroup", "memory.stat")
}

// TestMemoryThatIsInUseIsNotTaken: an Operation that would have processes killed for memory is refused before anything
// is touched, as the agents' word is now. Of pods that nobody reaches nothing is known, and they hold nothing up.
func TestMemoryThatIsInUseIsNotTaken(t *testing.T) {
	namespace := env.Namespace(t)
	run(t, -1)
	nodeAt(t, namespace, testagents.Address())
	app := application(namespace)
	ownMemory(&app.Spec)
	app.Spec.Components[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")}
	create(t, app)
	testkit.WaitForReady(t, env.Client, app)
	m := manage(t, onlyPod(t, namespace))

	m.uses(60)
	generation := app.Generation
	const says = "pod redis-a-redis-main-0 uses 60Mi of memory now, and a limit of 64Mi is asked for: the least that " +
		"would do is 66Mi"
	for name, change := range map[string]func(*platformv1.OperationSpec){"squeeze": nil,
		"foretell": func(s *platformv1.OperationSpec) { s.DryRun = true }} {
		if status := ends(t, operate(t, app, name, "VerticalScaleResource", change, "memory", "64Mi"),
			platformv1.OperationFailed); !strings.Contains(status.Error, says) {
			t.Errorf("%s: it says %q; want %q", name, status.Error, says)
		}
	}
	if refresh(t, app); app.Generation != generation {
		t.Errorf("the Application was changed: generation %d, before %d", app.Generation, generation)
	}
	ends(t, operate(t, app, "fit", "VerticalScaleResource", nil, "memory", "66Mi"), platformv1.OperationSucceeded)
	m.uses(65)
	ends(t, operate(t, app, "grow", "VerticalScaleResource", nil, "memory", "128Mi"), platformv1.OperationSucceeded)
	m.stop()
	ends(t, operate(t, app, "unasked", "VerticalScaleResource", nil, "memory", "64Mi"), platformv1.OperationSucceeded)
}
