// SPDX-License-Identifier: Apache-2.0

package platform

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
	"github.com/zeroinfra/test/e2e/framework"
)

// operatorURI is who the agents take calls from.
const operatorURI = "spiffe://zeroinfra.github.com/operator/database"

// TestAgentPort proves that the process manager answers nobody but an operator: the same call succeeds with an
// operator's certificate and fails with every other.
func TestAgentPort(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "port")
	i := s.CreateRedis("db")
	i.WaitReady()
	own, trusted := foreignAuthority(s), operatorsAuthority(s)
	var answer *agentv1.ProcessStatus
	s.Eventually(framework.EndpointTimeout, "who has an operator's certificate is answered", func() (err error) {
		answer, err = callAgent(i, trusted, trusted.client(s, operatorURI))
		return err
	})
	if answer.State != agentv1.ProcessState_PROCESS_STATE_RUNNING || answer.Pid <= 1 {
		t.Errorf("the process manager says %v with process %d, want a running one", answer.State, answer.Pid)
	}
	served := &corev1.Secret{}
	s.MustGet(platformv1.AgentCertificateNameFor(i.PodName()), served)
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
			i := &framework.Instance{Namespace: s.In(t), Name: i.Name}
			answer, err := callAgent(i, trusted, certificate)
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
		i := &framework.Instance{Namespace: s.In(t), Name: i.Name}
		i.Eventually(framework.EndpointTimeout, "the client turns away from the server's certificate", func() error {
			_, err := callAgent(i, own, trusted.client(i.Namespace, operatorURI))
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
func as(i *framework.Instance, pod *corev1.Pod) client.Client {
	i.Helper()
	token := agentToken(i, pod)
	config := rest.AnonymousClientConfig(framework.Cluster.Config)
	config.BearerToken = token
	c, err := client.New(config, client.Options{Scheme: framework.Cluster.Client.Scheme()})
	if err != nil {
		i.Fatal(err)
	}
	return c
}

// agentToken reads the token that is mounted in the pod, where the agent finds it.
func agentToken(i *framework.Instance, pod *corev1.Pod) string {
	i.Helper()
	out, err := framework.Run(i.Ctx, i.Namespace.Name, pod.Name, i.StatusContainer(), "", "cat",
		"/var/run/secrets/kubernetes.io/serviceaccount/token")
	if err != nil {
		i.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// TestPodRights proves what the token in a pod is good for: the annotation of its own pod, and nothing else.
func TestPodRights(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "rights")
	i, other := s.CreateRedis("db"), s.CreateRedis("other")
	i.WaitReady()
	other.WaitReady()
	own := i.Pod()
	agent := as(i, own)
	patch := func(pod *corev1.Pod, body string) error {
		return agent.Patch(s.Ctx, pod.DeepCopy(), client.RawPatch(client.Merge.Type(), []byte(body)))
	}
	if err := patch(own, `{"metadata":{"annotations":{"`+platformv1.ReportAnnotation+`":`+
		strconv.Quote(own.Annotations[platformv1.ReportAnnotation])+`}}}`); err != nil {
		t.Errorf("the agent cannot write the annotation of its own pod: %v", err)
	}
	foreign := &corev1.Pod{}
	s.MustGet(s.ClientPod(), foreign)
	annotate := `{"metadata":{"annotations":{"` + platformv1.ReportAnnotation + `":"{}"}}}`
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Name,
		Name: platformv1.CredentialNameFor(i.Application(), "default")}}
	for name, try := range map[string]func() error{
		"annotate the pod of another instance": func() error { return patch(other.Pod(), annotate) },
		"annotate a foreign pod":               func() error { return patch(foreign, annotate) },
		"delete its own pod":                   func() error { return agent.Delete(s.Ctx, own.DeepCopy()) },
		"list Secrets": func() error {
			return agent.List(s.Ctx, &corev1.SecretList{}, client.InNamespace(s.Name))
		},
		"read its own password": func() error { return agent.Get(s.Ctx, client.ObjectKeyFromObject(secret), secret) },
		"read the authority of the agents": func() error {
			return agent.Get(s.Ctx, client.ObjectKey{Namespace: framework.OperatorNamespace, Name: "database-agent-ca"},
				&corev1.Secret{})
		},
		"list pods": func() error { return agent.List(s.Ctx, &corev1.PodList{}, client.InNamespace(s.Name)) },
		"create a pod": func() error {
			pod := foreign.DeepCopy()
			pod.ObjectMeta = metav1.ObjectMeta{Namespace: s.Name, Name: "intruder"}
			return agent.Create(s.Ctx, pod)
		},
		"change its WorkloadSet": func() error {
			set := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, Name: i.WorkloadSet()}}
			return agent.Patch(s.Ctx, set, client.RawPatch(client.Merge.Type(), []byte(`{"spec":{"replicas":0}}`)))
		},
	} {
		t.Run(name, func(t *testing.T) { wantForbidden(s.In(t), try()) })
	}
	t.Run("more than the annotation of its own pod", func(t *testing.T) {
		s := s.In(t)
		s.Cleanup(func() {
			// Should it have been allowed, the pod could never go.
			undo := client.RawPatch(client.Merge.Type(), []byte(`{"metadata":{"finalizers":null}}`))
			if err := framework.Cluster.Client.Patch(context.Background(), own.DeepCopy(), undo); err != nil {
				s.Error(err)
			}
		})
		wantForbidden(s, patch(own, `{"metadata":{"labels":{"`+platformv1.RoleLabel+`":"replica"}}}`))
		wantForbidden(s, patch(own, `{"metadata":{"annotations":{"example.com/other":"x"}}}`))
		wantForbidden(s, patch(own, `{"metadata":{"finalizers":["example.com/stay"]}}`))
		image := client.RawPatch(types.JSONPatchType,
			[]byte(`[{"op":"replace","path":"/spec/containers/0/image","value":"example.com/other:1"}]`))
		wantForbidden(s, agent.Patch(s.Ctx, own.DeepCopy(), image))
	})
	i.WaitReady()
	other.WaitReady()
}

// TestSuiteRunsRestricted proves that operator and instances need no rights on their nodes. That the pods of instances
// exist at all says so too: their namespaces enforce it.
func TestSuiteRunsRestricted(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "psa")
	i := s.CreateRedis("db")
	i.WaitReady()
	pods, err := framework.OperatorPods(s.Ctx)
	if err != nil || len(pods) == 0 {
		t.Fatalf("cannot find the operator's pods: %v", err)
	}
	for _, pod := range append(pods, *i.Pod()) {
		copied := &corev1.Pod{ObjectMeta: framework.ObjectMeta("again"), Spec: pod.Spec}
		copied.Namespace = s.Name
		copied.Spec.NodeName = ""
		copied.Spec.ServiceAccountName, copied.Spec.DeprecatedServiceAccount = "default", ""
		if err := framework.Cluster.Client.Create(s.Ctx, copied, client.DryRunAll); err != nil {
			t.Errorf("pod %q is not restricted: %v", pod.Name, err)
		}
		checkHardened(s, &pod)
	}
	if automount := i.Pod().Spec.AutomountServiceAccountToken; automount == nil || *automount {
		t.Error("the token of the account is mounted into every container of the instance's pod")
	}
	if out, err := framework.Run(s.Ctx, s.Name, i.PodName(), framework.RedisComponent, "", "ls",
		"/var/run/secrets/kubernetes.io/serviceaccount"); err == nil {
		t.Errorf("the container of redis-server has the account's token: %s", out)
	}
}

func checkHardened(s *framework.Namespace, pod *corev1.Pod) {
	s.Helper()
	for _, container := range append(append([]corev1.Container{}, pod.Spec.InitContainers...), pod.Spec.Containers...) {
		c := container.SecurityContext
		if c == nil || c.ReadOnlyRootFilesystem == nil || !*c.ReadOnlyRootFilesystem ||
			c.Capabilities == nil || len(c.Capabilities.Add) > 0 || (c.Privileged != nil && *c.Privileged) {
			s.Errorf("container %q of pod %q can do more than it has to: %+v", container.Name, pod.Name, c)
		}
	}
}
