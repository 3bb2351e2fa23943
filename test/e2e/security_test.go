// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/tls"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// operatorURI is who the agents take calls from.
const operatorURI = "spiffe://zeroinfra.github.com/operator/database"

// TestAgentPort proves that the process manager answers nobody but an operator: the same call succeeds with an operator's
// certificate and fails with every other.
func TestAgentPort(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "port")
	i := s.redis("db")
	i.ready()
	own, trusted := s.ownAuthority(), s.operatorsAuthority()
	var answer *agentv1.ProcessStatus
	s.eventually(spreadIn, "who has an operator's certificate is answered", func() (err error) {
		answer, err = i.callAgent(trusted, trusted.client(s, operatorURI))
		return err
	})
	if answer.State != agentv1.ProcessState_PROCESS_STATE_RUNNING || answer.Pid <= 1 {
		t.Errorf("the process manager says %v with process %d, want a running one", answer.State, answer.Pid)
	}
	served := &corev1.Secret{}
	s.mustGet(platformv1.AgentCertificateNameFor(i.podName()), served)
	server, err := tls.X509KeyPair(served.Data[corev1.TLSCertKey], served.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		t.Fatal(err)
	}
	for name, certificate := range map[string]*tls.Certificate{
		"no certificate":                       nil,
		"a certificate of a foreign authority": own.client(s, operatorURI),
		"the pod's own server certificate":     &server,
		"a certificate that names nobody":      trusted.client(s, ""),
		"a certificate of another kind":        trusted.client(s, "spiffe://zeroinfra.github.com/pod/database"),
	} {
		t.Run(name, func(t *testing.T) {
			i := &instance{space: s.in(t), name: i.name}
			answer, err := i.callAgent(trusted, certificate)
			switch code := status.Code(err); {
			case err == nil:
				t.Errorf("it was answered: %v", answer)
			case code == codes.DeadlineExceeded || code == codes.Canceled:
				t.Errorf("it was not refused, the call only timed out: %v", err)
			default:
				t.Logf("refused: %v", err)
			}
		})
	}
	t.Run("a server of a foreign authority is not trusted", func(t *testing.T) {
		i := &instance{space: s.in(t), name: i.name}
		i.eventually(spreadIn, "the client turns away from the server's certificate", func() error {
			_, err := i.callAgent(own, trusted.client(i.space, operatorURI))
			if err == nil {
				t.Fatal("the server's certificate is not signed by the domain's authority")
			}
			if !strings.Contains(err.Error(), "certificate") {
				return err
			}
			return nil
		})
	})
}

// as returns a client that acts with the token of a pod's account, bound to that pod, as the agents have it.
func (i *instance) as(pod *corev1.Pod) client.Client {
	i.Helper()
	token := i.agentToken(pod)
	config := rest.AnonymousClientConfig(world.config)
	config.BearerToken = token
	c, err := client.New(config, client.Options{Scheme: world.client.Scheme()})
	if err != nil {
		i.Fatal(err)
	}
	return c
}

// agentToken reads the token that is mounted in the pod, where the agent finds it.
func (i *instance) agentToken(pod *corev1.Pod) string {
	i.Helper()
	out, err := run(i.ctx, i.space.name, pod.Name, i.statusContainer(), "", "cat", "/var/run/secrets/kubernetes.io/serviceaccount/token")
	if err != nil {
		i.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// TestPodRights proves what the token in a pod is good for: the annotation of its own pod, and nothing else.
func TestPodRights(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "rights")
	i, other := s.redis("db"), s.redis("other")
	i.ready()
	other.ready()
	own := i.pod()
	agent := i.as(own)
	patch := func(pod *corev1.Pod, body string) error {
		return agent.Patch(s.ctx, pod.DeepCopy(), client.RawPatch(client.Merge.Type(), []byte(body)))
	}
	if err := patch(own, `{"metadata":{"annotations":{"`+platformv1.ReportAnnotation+`":`+strconv.Quote(own.Annotations[platformv1.ReportAnnotation])+`}}}`); err != nil {
		t.Errorf("the agent cannot write the annotation of its own pod: %v", err)
	}
	foreign := &corev1.Pod{}
	s.mustGet(s.clientPod(), foreign)
	annotate := `{"metadata":{"annotations":{"` + platformv1.ReportAnnotation + `":"{}"}}}`
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: platformv1.CredentialNameFor(i.application(), "default")}}
	for name, try := range map[string]func() error{
		"annotate the pod of another instance": func() error { return patch(other.pod(), annotate) },
		"annotate a foreign pod":               func() error { return patch(foreign, annotate) },
		"delete its own pod":                   func() error { return agent.Delete(s.ctx, own.DeepCopy()) },
		"list Secrets":                         func() error { return agent.List(s.ctx, &corev1.SecretList{}, client.InNamespace(s.name)) },
		"read its own password":                func() error { return agent.Get(s.ctx, client.ObjectKeyFromObject(secret), secret) },
		"read the authority of the agents": func() error {
			return agent.Get(s.ctx, client.ObjectKey{Namespace: operatorNamespace, Name: "database-agent-ca"}, &corev1.Secret{})
		},
		"list pods": func() error { return agent.List(s.ctx, &corev1.PodList{}, client.InNamespace(s.name)) },
		"create a pod": func() error {
			pod := foreign.DeepCopy()
			pod.ObjectMeta = metav1.ObjectMeta{Namespace: s.name, Name: "intruder"}
			return agent.Create(s.ctx, pod)
		},
		"change its WorkloadSet": func() error {
			set := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: i.workloadSet()}}
			return agent.Patch(s.ctx, set, client.RawPatch(client.Merge.Type(), []byte(`{"spec":{"replicas":0}}`)))
		},
	} {
		t.Run(name, func(t *testing.T) { s.in(t).wantForbidden(try()) })
	}
	t.Run("more than the annotation of its own pod", func(t *testing.T) {
		s := s.in(t)
		s.Cleanup(func() {
			// Should it have been allowed, the pod could never go.
			undo := client.RawPatch(client.Merge.Type(), []byte(`{"metadata":{"finalizers":null}}`))
			if err := world.client.Patch(context.Background(), own.DeepCopy(), undo); err != nil {
				s.Error(err)
			}
		})
		s.wantForbidden(patch(own, `{"metadata":{"labels":{"`+platformv1.RoleLabel+`":"replica"}}}`))
		s.wantForbidden(patch(own, `{"metadata":{"annotations":{"example.com/other":"x"}}}`))
		s.wantForbidden(patch(own, `{"metadata":{"finalizers":["example.com/stay"]}}`))
		image := client.RawPatch(types.JSONPatchType, []byte(`[{"op":"replace","path":"/spec/containers/0/image","value":"example.com/other:1"}]`))
		s.wantForbidden(agent.Patch(s.ctx, own.DeepCopy(), image))
	})
	i.ready()
	other.ready()
}

// TestSuiteRunsRestricted proves that operator and instances need no rights on their nodes. That the pods of instances exist at
// all says so too: their namespaces enforce it.
func TestSuiteRunsRestricted(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "psa")
	i := s.redis("db")
	i.ready()
	pods, err := operatorPods(s.ctx)
	if err != nil || len(pods) == 0 {
		t.Fatalf("cannot find the operator's pods: %v", err)
	}
	for _, pod := range append(pods, *i.pod()) {
		copied := &corev1.Pod{ObjectMeta: named("again"), Spec: pod.Spec}
		copied.Namespace = s.name
		copied.Spec.NodeName = ""
		copied.Spec.ServiceAccountName, copied.Spec.DeprecatedServiceAccount = "default", ""
		if err := world.client.Create(s.ctx, copied, client.DryRunAll); err != nil {
			t.Errorf("pod %q is not restricted: %v", pod.Name, err)
		}
		s.checkHardened(&pod)
	}
	if automount := i.pod().Spec.AutomountServiceAccountToken; automount == nil || *automount {
		t.Error("the token of the account is mounted into every container of the instance's pod")
	}
	if out, err := run(s.ctx, s.name, i.podName(), redisComponent, "", "ls", "/var/run/secrets/kubernetes.io/serviceaccount"); err == nil {
		t.Errorf("the container of redis-server has the account's token: %s", out)
	}
}

func (s *space) checkHardened(pod *corev1.Pod) {
	s.Helper()
	for _, container := range append(append([]corev1.Container{}, pod.Spec.InitContainers...), pod.Spec.Containers...) {
		c := container.SecurityContext
		if c == nil || c.ReadOnlyRootFilesystem == nil || !*c.ReadOnlyRootFilesystem ||
			c.Capabilities == nil || len(c.Capabilities.Add) > 0 || (c.Privileged != nil && *c.Privileged) {
			s.Errorf("container %q of pod %q can do more than it has to: %+v", container.Name, pod.Name, c)
		}
	}
}
