// SPDX-License-Identifier: Apache-2.0

//go:build integration

package dataset

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/operator"
	"github.com/zeroinfra/platform-core/sdk/testkit"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
	"github.com/zeroinfra/model-operator/config/crd"
)

const (
	// asOperator has this test binary be the operator instead of testing it.
	asOperator = "TEST_RUNS_AS_OPERATOR"
	system     = "zeroinfra-system"
)

var env *testkit.Env

func TestMain(m *testing.M) {
	if os.Getenv(asOperator) != "" {
		operator.Main(operator.Options{
			Domain: domain, AddToScheme: []func(*runtime.Scheme) error{aiv1.AddToScheme},
			Controllers: []operator.Controller{Kind{}}, CRDs: []fs.FS{crd.FS}, Version: "1.2.3",
		})
		return
	}
	testkit.Main(m, &env, testkit.EnvOptions{
		Own:         "an operator installs its definitions and serves all namespaces",
		AddToScheme: []func(*runtime.Scheme) error{aiv1.AddToScheme},
		CRDs:        []fs.FS{os.DirFS("../../../platform-core/config/crd/bases"), crd.FS},
		System:      system, Roles: []fs.FS{os.DirFS("../../config/rbac")},
	})
}

// serve runs the whole operator as a process until the test ends, or kill is called: it has no time to put anything in
// order.
func serve(t *testing.T) (kill func()) {
	t.Helper()
	// Records of Operations go at once, but for those that somebody has yet to read.
	command := exec.Command(os.Args[0], "--kubeconfig="+env.KubeconfigOf(t, env.System), "--namespace="+system,
		"--agent-image=agent:test", "--operation-history-limit=0", "--operation-history-ttl=1ms",
		"--health-probe-bind-address=0", "--metrics-bind-address=0", "--log-format=console", "--log-level=info")
	command.Env = append(os.Environ(), asOperator+"=1")
	output, err := os.CreateTemp(t.TempDir(), "log")
	if err != nil {
		t.Fatal(err)
	}
	command.Stdout, command.Stderr = output, output
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	killed := false
	kill = func() {
		if killed {
			return
		}
		killed = true
		_ = command.Process.Kill()
		_ = command.Wait() // It was killed.
		leases := []client.ObjectKey{
			{Namespace: system, Name: domain + "-operator.zeroinfra.github.com"},
			{Namespace: "kube-system", Name: domain + "-scopes.zeroinfra.github.com"},
		}
		for _, key := range leases {
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
			if err := client.IgnoreNotFound(env.Client.Delete(context.Background(), lease)); err != nil {
				t.Error(err)
			}
		}
		if said, err := os.ReadFile(output.Name()); t.Failed() && err == nil {
			t.Logf("the operator said:\n%s", said)
		}
	}
	t.Cleanup(kill)
	return kill
}

// bench is a namespace with an account that may make Jobs.
type bench struct {
	*testing.T
	namespace string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{T: t, namespace: env.Namespace(t)}
	t.Cleanup(b.describe)
	meta := b.meta("preparer")
	b.create(&corev1.ServiceAccount{ObjectMeta: meta})
	b.create(&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{"batch"},
		Resources: []string{"jobs"}, Verbs: []string{"create"}}}})
	b.create(&rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role",
		Name: meta.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: b.namespace, Name: meta.Name}}})
	return b
}

// describe says of a test that failed which Operations and Jobs there are.
func (b *bench) describe() {
	if !b.Failed() {
		return
	}
	var operations platformv1.OperationList
	var jobs batchv1.JobList
	for _, list := range []client.ObjectList{&operations, &jobs} {
		if err := env.Client.List(context.Background(), list, client.InNamespace(b.namespace)); err != nil {
			b.Error(err)
		}
	}
	for _, op := range operations.Items {
		b.Logf("Operation %s, made %s: %+v", op.Name, op.CreationTimestamp, op.Status)
	}
	for _, job := range jobs.Items {
		b.Logf("Job %s, made %s: %+v", job.Name, job.CreationTimestamp, job.Status)
	}
}

func (b *bench) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: b.namespace, Name: name}
}

func (b *bench) create(objects ...client.Object) {
	b.Helper()
	for _, object := range objects {
		if err := env.Client.Create(b.Context(), object); err != nil {
			b.Fatalf("cannot create %T %q: %v", object, object.GetName(), err)
		}
	}
}

// dataset creates a Dataset whose account may make Jobs, with what the YAML adds.
func (b *bench) dataset(name, spec string) *aiv1.Dataset {
	b.Helper()
	return b.datasetOf("preparer", name, spec)
}

// datasetOf creates a Dataset of an account.
func (b *bench) datasetOf(account, name, spec string) *aiv1.Dataset {
	b.Helper()
	ds := &aiv1.Dataset{ObjectMeta: b.meta(name)}
	if err := yaml.UnmarshalStrict([]byte("serviceAccountName: "+account+"\nstorage: {size: 1Gi}\n"+spec),
		&ds.Spec); err != nil {
		b.Fatal(err)
	}
	b.create(ds)
	return ds
}

// reaches waits until a version has a phase and a message with a text.
func (b *bench) reaches(ds *aiv1.Dataset, version aiv1.DatasetVersionName, phase aiv1.DatasetPhase,
	message string) aiv1.DatasetVersionStatus {
	b.Helper()
	var found aiv1.DatasetVersionStatus
	testkit.WaitFor(b, env.Client, ds, fmt.Sprintf("version %s: %s: %s", version, phase, message), func() error {
		for _, st := range ds.Status.Versions {
			if found = st; st.Name == version && st.Phase == phase && strings.Contains(st.Message, message) {
				return nil
			}
		}
		return fmt.Errorf("the status is %+v", ds.Status)
	})
	if err := testkit.StatusLint(ds); err != nil {
		b.Error(err)
	}
	return found
}

// says waits until a Dataset is not ready for a reason, with a message that has a text.
func (b *bench) says(ds *aiv1.Dataset, reason, text string) {
	b.Helper()
	testkit.WaitFor(b, env.Client, ds, "says "+text, func() error {
		c := conditions.Get(ds, platformv1.ReadyCondition)
		if c == nil || c.Status != metav1.ConditionFalse || c.Reason != reason || !strings.Contains(c.Message, text) {
			return fmt.Errorf("Ready is %+v", c)
		}
		return nil
	})
}

// job waits for the Job of a step of a version which has not ended.
func (b *bench) job(version aiv1.DatasetVersionName, step string) *batchv1.Job {
	b.Helper()
	var found *batchv1.Job
	testkit.Eventually(b, fmt.Sprintf("a Job of step %s of version %s", step, version),
		func(ctx context.Context) error {
			var operations platformv1.OperationList
			err := env.Client.List(ctx, &operations, client.InNamespace(b.namespace),
				client.MatchingLabels{aiv1.DatasetVersionLabel: string(version)})
			if err != nil {
				return err
			}
			var jobs batchv1.JobList
			if err := env.Client.List(ctx, &jobs, client.InNamespace(b.namespace),
				client.MatchingLabels{platformv1.StepLabel: step}); err != nil {
				return err
			}
			for i := range jobs.Items {
				for k := range operations.Items {
					job := &jobs.Items[i]
					if len(job.Status.Conditions) == 0 && metav1.IsControlledBy(job, &operations.Items[k]) {
						found = job
						return nil
					}
				}
			}
			return fmt.Errorf("there are %d Jobs and %d Operations", len(jobs.Items), len(operations.Items))
		})
	return found
}

// end has the pod of a step say something and end with a code.
func (b *bench) end(version aiv1.DatasetVersionName, step string, code int32, said string) {
	b.Helper()
	job := b.job(version, step)
	container := job.Spec.Template.Spec.Containers[0].Name
	pod := testkit.PodOfJob(job)
	b.create(pod)
	pod.Status.Phase = corev1.PodSucceeded
	condition := batchv1.JobComplete
	if code != 0 {
		pod.Status.Phase, condition = corev1.PodFailed, batchv1.JobFailed
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: container, State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: said, FinishedAt: metav1.Now()}}}}
	if err := env.Client.Status().Update(b.Context(), pod); err != nil {
		b.Fatal(err)
	}
	if err := env.EndJob(b.Context(), job, condition); err != nil {
		b.Fatal(err)
	}
}

// outcomeOf is what the agents say of a version that they have prepared.
func outcomeOf(digit string) string {
	return fmt.Sprintf("digest=%s\nfiles=1\nbytes=12\n", strings.Repeat(digit, 64))
}
