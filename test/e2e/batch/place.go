// SPDX-License-Identifier: Apache-2.0

package batch

import (
	"fmt"
	"strings"

	kubebatchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

const (
	// batchOperator is the chart that brings the kinds CronJob and Workflow.
	batchOperator = "batch-operator"
	// account that the tasks of the tests are run as.
	account = "worker"
	// shell is the pod of a task that runs a script of the tests, without its source.
	shell = "image: zeroinfra/redis:8.0, runAsUser: 999"
	// token is in the header of calls, and in no record.
	token = "hush-hush-token"
	// serverPod is the pod of the HTTP server, its container and its Service.
	serverPod = "server"
	// serverPort is where it listens.
	serverPort = 8080
)

// serverConfig of nginx: it notes each call, knows who may call /private, and answers /broken with an error.
const serverConfig = `worker_processes 1;
pid /tmp/nginx.pid;
error_log /tmp/error.log;
events {}
http {
  log_format calls '$request_method $uri status=$status auth=$http_authorization key=$http_idempotency_key';
  access_log /tmp/access.log calls;
  client_body_temp_path /tmp/body; proxy_temp_path /tmp/proxy; fastcgi_temp_path /tmp/fastcgi;
  uwsgi_temp_path /tmp/uwsgi; scgi_temp_path /tmp/scgi;
  server {
    listen 8080;
    default_type application/json;
    location /private { if ($http_authorization != "Bearer ` + token +
	`") { return 401 '{"state": "unknown"}'; } return 200 '{"state": "ok", "id": "7"}'; }
    location /broken { return 503 '{"state": "broken"}'; }
    location / { return 200 '{"state": "ok"}'; }
  }
}
`

// place is a namespace with an account for tasks and an HTTP server.
type place struct{ *framework.Namespace }

// newPlace makes a namespace, and installs the batch operator where no test has.
func newPlace(s *framework.Namespace) *place {
	s.Helper()
	s.EnsureOperator(batchOperator)
	s.Eventually(framework.LeaderTimeout, batchOperator+" has a leader", func() error {
		_, err := framework.LeaderOf(s.Ctx, batchOperator)
		return err
	})
	p := &place{s}
	p.lendAccount()
	p.CreateSecret("login", "token", token)
	p.Create(&corev1.ConfigMap{ObjectMeta: framework.ObjectMeta(serverPod),
		Data: map[string]string{"nginx.conf": serverConfig}})
	p.Create(&corev1.Service{ObjectMeta: framework.ObjectMeta(serverPod), Spec: corev1.ServiceSpec{
		ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{"app": serverPod},
		Ports: []corev1.ServicePort{{Port: serverPort}},
	}})
	p.Create(server())
	outside := p.NewExternalClient()
	p.Eventually(framework.ReadyTimeout, "the HTTP server is reached by its name", func() error {
		conn, err := outside.Dial(p.Ctx, "tcp", p.host())
		if err != nil {
			return err
		}
		return conn.Close()
	})
	return p
}

// lendAccount makes the account of tasks, with the rights that these need.
func (p *place) lendAccount() {
	p.Helper()
	meta := framework.ObjectMeta(account)
	p.Create(&corev1.ServiceAccount{ObjectMeta: meta})
	p.Create(&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"batch"}, Resources: []string{"jobs"}, Verbs: []string{"create"}},
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}},
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "create", "patch", "delete"}},
	}})
	p.Create(&rbacv1.RoleBinding{ObjectMeta: meta,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: p.Name, Name: account}}})
}

// server is the pod of the HTTP server.
func server() *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: framework.ObjectMeta(serverPod)}
	pod.Labels = map[string]string{"app": serverPod}
	pod.Spec = corev1.PodSpec{
		AutomountServiceAccountToken: new(false),
		SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: new(true), RunAsUser: new(int64(101)),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
		Containers: []corev1.Container{{
			Name: serverPod, Image: "zeroinfra/nginx:1.26",
			Command: []string{"nginx", "-c", "/config/nginx.conf", "-g", "daemon off;"},
			SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: new(false),
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
			VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/config"}, {Name: "tmp", MountPath: "/tmp"}},
			ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
				HTTPGet: &corev1.HTTPGetAction{Path: "/ready", Port: intstr.FromInt32(serverPort)}}},
		}},
		Volumes: []corev1.Volume{
			{Name: "config", VolumeSource: corev1.VolumeSource{
				ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: serverPod}}}},
			{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		},
	}
	return pod
}

// host of the server, as pods and the operator reach it: its Service leads to the pod without a proxy that learns of it
// later.
func (p *place) host() string { return fmt.Sprintf("%s.%s.svc:%d", serverPod, p.Name, serverPort) }

// url of a path of the server.
func (p *place) url(path string) string { return "http://" + p.host() + path }

// calls of a path that the server has noted, one a line.
func (p *place) calls(path string) []string {
	p.Helper()
	out, err := framework.Run(p.Ctx, p.Name, serverPod, serverPod, "", "cat", "/tmp/access.log")
	if err != nil {
		p.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(out) {
		if strings.Contains(line, " "+path+" ") {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	return lines
}

// workflow creates a Workflow.
func (p *place) workflow(name, spec string) *batchv1.Workflow {
	p.Helper()
	wf := &batchv1.Workflow{ObjectMeta: framework.ObjectMeta(name)}
	p.read(spec, &wf.Spec)
	wf.Spec.ServiceAccountName = account
	p.Create(wf)
	return wf
}

// read fills in what a text in YAML says.
func (p *place) read(text string, into any) {
	p.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
		p.Fatalf("cannot read %s: %v", text, err)
	}
}

// expect is an error with the status that was seen, unless a condition holds.
func expect(holds bool, status batchv1.WorkflowStatus) error {
	if holds {
		return nil
	}
	return fmt.Errorf("the status is %+v", status)
}

// configMapOf is a ConfigMap with data.
func configMapOf(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: framework.ObjectMeta(name), Data: data}
}

// ended waits until a Workflow is in a phase that is its last one, and reads it.
func (p *place) ended(wf *batchv1.Workflow, phase batchv1.WorkflowPhase) {
	p.Helper()
	p.phase(wf, phase)
	if wf.Status.CompletionTime == nil {
		p.Errorf("Workflow %q has no time of its end: %+v", wf.Name, wf.Status)
	}
}

// phase waits until a Workflow is in a phase, and reads it.
func (p *place) phase(wf *batchv1.Workflow, phase batchv1.WorkflowPhase) {
	p.Helper()
	p.Eventually(framework.ReadyTimeout, fmt.Sprintf("Workflow %q is %s", wf.Name, phase), func() error {
		p.MustGet(wf.Name, wf)
		if wf.Status.Phase != phase {
			return fmt.Errorf("the status is %+v", wf.Status)
		}
		return nil
	})
}

// task is the state of a task of a Workflow.
func (p *place) task(wf *batchv1.Workflow, name string) batchv1.TaskStatus {
	p.Helper()
	for _, task := range wf.Status.Tasks {
		if task.Name == name {
			return task
		}
	}
	p.Fatalf("Workflow %q has no task %q: %+v", wf.Name, name, wf.Status.Tasks)
	return batchv1.TaskStatus{}
}

// wantTasks checks in which phases the tasks of a Workflow ended.
func (p *place) wantTasks(wf *batchv1.Workflow, want map[string]platformv1.OperationPhase) {
	p.Helper()
	for name, phase := range want {
		if got := p.task(wf, name); got.Phase != phase {
			p.Errorf("task %q of Workflow %q is %s, want %s: %s", name, wf.Name, got.Phase, phase, got.Message)
		}
	}
}

// cronJob creates a CronJob that runs every five seconds in UTC, unless its spec says otherwise.
func (p *place) cronJob(name, spec string) *batchv1.CronJob {
	p.Helper()
	cj := &batchv1.CronJob{ObjectMeta: framework.ObjectMeta(name)}
	cj.Spec.Schedules, cj.Spec.TimeZone, cj.Spec.ServiceAccountName = []string{"*/5 * * * * *"}, "UTC", account
	p.read(spec, &cj.Spec)
	p.Create(cj)
	return cj
}

// until waits for the status of a CronJob, and reads it.
func (p *place) until(cj *batchv1.CronJob, what string, is func(s batchv1.CronJobStatus) bool) {
	p.Helper()
	p.Eventually(framework.SettleTimeout, fmt.Sprintf("CronJob %q %s", cj.Name, what), func() error {
		p.MustGet(cj.Name, cj)
		if !is(cj.Status) {
			return fmt.Errorf("the status is %+v", cj.Status)
		}
		return nil
	})
}

// jobs are the Jobs of an Operation.
func (p *place) jobs(operation string) []kubebatchv1.Job {
	p.Helper()
	var list kubebatchv1.JobList
	err := framework.Cluster.Client.List(p.Ctx, &list, client.InNamespace(p.Name),
		client.MatchingLabels{platformv1.OperationLabel: operation})
	if err != nil {
		p.Fatal(err)
	}
	return list.Items
}

// noPods waits until no pod of an Operation runs.
func (p *place) noPods(operation string) {
	p.Helper()
	p.Eventually(framework.RemovalTimeout, "the pods of Operation "+operation+" are gone", func() error {
		var pods corev1.PodList
		if err := framework.Cluster.Client.List(p.Ctx, &pods, client.InNamespace(p.Name),
			client.MatchingLabels{platformv1.OperationLabel: operation}); err != nil {
			return err
		}
		for i := range pods.Items {
			if phase := pods.Items[i].Status.Phase; phase == corev1.PodPending || phase == corev1.PodRunning {
				return fmt.Errorf("pod %q is %s", pods.Items[i].Name, phase)
			}
		}
		return nil
	})
}

// as is a client of another user, who may do everything.
func (p *place) as(user string) client.Client {
	p.Helper()
	config := rest.CopyConfig(framework.Cluster.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:masters"}}
	c, err := client.New(config, client.Options{Scheme: framework.Cluster.Client.Scheme()})
	if err != nil {
		p.Fatal(err)
	}
	return c
}

// approve has a user approve the run of a Workflow.
func (p *place) approve(wf *batchv1.Workflow, user string) error {
	p.Helper()
	return p.decide(wf, platformv1.OperationApproval{By: user, Decision: platformv1.OperationApproved})
}

// reject has a user reject the run of a Workflow, and say why.
func (p *place) reject(wf *batchv1.Workflow, user, reason string) error {
	p.Helper()
	return p.decide(wf, platformv1.OperationApproval{By: user, Decision: platformv1.OperationRejected, Reason: reason})
}

// decide has a user write what he decided into the Operation of a Workflow.
func (p *place) decide(wf *batchv1.Workflow, decision platformv1.OperationApproval) error {
	p.Helper()
	op := &platformv1.Operation{}
	p.MustGet(wf.Status.Operation, op)
	before := op.DeepCopy()
	op.Spec.Approval = &decision
	return p.as(decision.By).Patch(p.Ctx, op, client.MergeFrom(before))
}

// decideAsOne has one of several users approve or reject the run of a Workflow.
func (p *place) decideAsOne(wf *batchv1.Workflow, by, name string, decision platformv1.OperationDecision) error {
	p.Helper()
	op := &platformv1.Operation{}
	p.MustGet(wf.Status.Operation, op)
	data := fmt.Appendf(nil, `{"spec":{"approvals":{%q:%q}}}`, name, decision)
	return p.as(by).Patch(p.Ctx, op, client.RawPatch("application/merge-patch+json", data))
}

// annotate gives an object an annotation.
func (p *place) annotate(obj client.Object, key, value string) {
	p.Helper()
	data := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, key, value)
	err := framework.Cluster.Client.Patch(p.Ctx, obj, client.RawPatch("application/merge-patch+json", data))
	if err != nil {
		p.Fatal(err)
	}
}

// change merges a spec into that of an object.
func (p *place) change(obj client.Object, spec string) {
	p.Helper()
	data, err := yaml.YAMLToJSON([]byte("spec: {" + spec + "}"))
	if err == nil {
		err = framework.Cluster.Client.Patch(p.Ctx, obj, client.RawPatch("application/merge-patch+json", data))
	}
	if err != nil {
		p.Fatal(err)
	}
}

// configMap is one that a task has made.
func (p *place) configMap(name string) (map[string]string, error) {
	found := &corev1.ConfigMap{}
	err := p.Get(name, found)
	return found.Data, err
}

// noSecret checks that a record does not have the token of calls.
func (p *place) noSecret(operation string) {
	p.Helper()
	op := &platformv1.Operation{}
	p.MustGet(operation, op)
	if text := fmt.Sprintf("%+v", op); strings.Contains(text, token) {
		p.Errorf("the record has the secret: %s", text)
	}
}
