// SPDX-License-Identifier: Apache-2.0

//go:build integration

package cronjob

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	kubebatchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/operator"
	"github.com/zeroinfra/platform-core/sdk/testkit"
	"github.com/zeroinfra/platform-core/sdk/testkit/enginetest"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
	"github.com/zeroinfra/batch-operator/config/crd"
)

var env *testkit.Env

func TestMain(m *testing.M) {
	testkit.Main(m, &env, testkit.EnvOptions{
		Own:         "the policies of the operator are installed",
		AddToScheme: []func(*runtime.Scheme) error{batchv1.AddToScheme},
		CRDs:        []fs.FS{os.DirFS("../../../platform-core/config/crd/bases"), crd.FS},
		System:      "zeroinfra-system", Roles: []fs.FS{os.DirFS("../../config/rbac")},
	})
}

// yearly is a schedule that only a clock of the test reaches.
const yearly = "@yearly"

// place is a namespace with an account for tasks, and a clock.
type place struct {
	testing.TB
	namespace string
	// ahead is how far the clock of the controller is.
	ahead atomic.Int64
	// later is how much later than others a CronJob has its times, by its name.
	later map[string]time.Duration
	// dial and client are those of the controllers.
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
	client client.NewClientFunc
	// transport is their way to the API server; a plain one when nil.
	transport *testkit.Transport
}

func newPlace(t *testing.T) *place {
	t.Helper()
	p := &place{TB: t, namespace: env.Namespace(t), later: map[string]time.Duration{}}
	meta := metav1.ObjectMeta{Namespace: p.namespace, Name: "worker"}
	p.create(&corev1.ServiceAccount{ObjectMeta: meta})
	p.create(&rbacv1.Role{ObjectMeta: meta,
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{"batch"}, Resources: []string{"jobs"}, Verbs: []string{"create"}}}})
	p.create(&rbacv1.RoleBinding{ObjectMeta: meta,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: p.namespace, Name: meta.Name}}})
	return p
}

func (p *place) create(objects ...client.Object) {
	p.Helper()
	for _, object := range objects {
		if err := env.Client.Create(p.Context(), object); err != nil {
			p.Fatalf("cannot create %T %q: %v", object, object.GetName(), err)
		}
	}
}

// serve runs the controllers until the test ends, or it is told to stop.
func (p *place) serve() (stop func()) {
	p.Helper()
	mgr := enginetest.NewManager(p, env, enginetest.Options{
		Domain: domain, Namespace: p.namespace, Kinds: []client.Object{&batchv1.CronJob{}, &batchv1.Workflow{}}, Dial: p.dial,
		NewClient: p.client, Transport: p.transport,
	})
	now := func() time.Time { return time.Now().Add(time.Duration(p.ahead.Load())) }
	err := (Kind{Now: now}).Setup(mgr, operator.ControllerSettings{CheckTemplate: enginetest.CheckTemplate})
	if err != nil {
		p.Fatal(err)
	}
	return testkit.Run(p, mgr)
}

// script is a CronJob whose runs are pods.
func (p *place) script(name string, change func(*batchv1.CronJobSpec)) *batchv1.CronJob {
	p.Helper()
	cj := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: name}}
	cj.Spec = batchv1.CronJobSpec{Schedules: []string{yearly}, TimeZone: "UTC", ServiceAccountName: "worker"}
	cj.Spec.Task.Script = &batchv1.ScriptTask{PodTask: batchv1.PodTask{Image: "example/tool:1"}, Source: "true"}
	if change != nil {
		change(&cj.Spec)
	}
	p.create(cj)
	return cj
}

// year is the time of the schedule so many years ahead.
func year(n int) time.Time { return time.Date(time.Now().UTC().Year()+n, 1, 1, 0, 0, 0, 0, time.UTC) }

// due is the time of a CronJob so many years ahead.
func (p *place) due(cj *batchv1.CronJob, n int) time.Time { return year(n).Add(p.later[cj.Name]) }

// after has the times of a CronJob come so many minutes after those of others: who is looked at once more when theirs
// has come does not begin before them.
func (p *place) after(minutes int, cj *batchv1.CronJob) {
	p.Helper()
	p.later[cj.Name] = time.Duration(minutes) * time.Minute
	p.edit(cj, func() { cj.Spec.Schedules = []string{fmt.Sprintf("%d 0 1 1 *", minutes)} })
}

// reach sets the clock to just after a time of the schedule, and wakes the CronJobs.
func (p *place) reach(n int, all ...*batchv1.CronJob) {
	p.Helper()
	at := year(n)
	for _, cj := range all {
		if due := p.due(cj, n); due.After(at) {
			at = due
		}
	}
	p.ahead.Store(int64(time.Until(at.Add(time.Second))))
	for _, cj := range all {
		p.annotate(cj, "test/wake", fmt.Sprint(n))
	}
}

// annotate gives a CronJob an annotation.
func (p *place) annotate(cj *batchv1.CronJob, key, value string) {
	p.Helper()
	p.edit(cj, func() {
		if cj.Annotations == nil {
			cj.Annotations = map[string]string{}
		}
		cj.Annotations[key] = value
	})
}

func (p *place) edit(cj *batchv1.CronJob, change func()) {
	p.Helper()
	if err := testkit.Edit(p.Context(), env.Client, cj, change); err != nil {
		p.Fatal(err)
	}
}

// waits until a CronJob is so. Its conditions are checked as well.
func (p *place) waits(cj *batchv1.CronJob, what string, is func(s batchv1.CronJobStatus) bool) {
	p.Helper()
	testkit.WaitFor(p, env.Client, cj, what, func() error {
		if !is(cj.Status) {
			return fmt.Errorf("the status is %+v", cj.Status)
		}
		return nil
	})
	if err := testkit.StatusLint(cj); err != nil {
		p.Error(err)
	}
}

// says waits until a condition has a message that has a text.
func (p *place) says(cj *batchv1.CronJob, condition, reason, text string) {
	p.Helper()
	p.waits(cj, condition+": "+text, func(batchv1.CronJobStatus) bool {
		c := conditions.Get(cj, condition)
		return c != nil && c.Reason == reason && strings.Contains(c.Message, text)
	})
}

// wantCounts waits until runs were counted so.
func (p *place) wantCounts(cj *batchv1.CronJob, started, succeeded, failed, skipped int64) {
	p.Helper()
	want := batchv1.RunCounts{Started: started, Succeeded: succeeded, Failed: failed, Skipped: skipped}
	p.waits(cj, fmt.Sprintf("counts %+v", want), func(s batchv1.CronJobStatus) bool { return s.Counts == want })
}

// runs are the names of the Operations of a CronJob.
func (p *place) runs(cj *batchv1.CronJob) []string {
	p.Helper()
	var list platformv1.OperationList
	if err := env.Client.List(p.Context(), &list, client.InNamespace(p.namespace),
		client.MatchingLabels{batchv1.CronJobLabel: cj.Name}); err != nil {
		p.Fatal(err)
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	slices.Sort(names)
	return names
}

// wantRuns checks of which times there are runs.
func (p *place) wantRuns(cj *batchv1.CronJob, years ...int) {
	p.Helper()
	var want []string
	for _, n := range years {
		want = append(want, nameOf(cj, p.due(cj, n)))
	}
	if got := p.runs(cj); !slices.Equal(got, want) {
		p.Errorf("the runs are %v, want %v", got, want)
	}
}

// job waits for the Job of the run of a time.
func (p *place) job(cj *batchv1.CronJob, n int) *kubebatchv1.Job {
	p.Helper()
	meta := metav1.ObjectMeta{Namespace: p.namespace, Name: nameOf(cj, p.due(cj, n)) + "-task"}
	job := &kubebatchv1.Job{ObjectMeta: meta}
	testkit.WaitFor(p, env.Client, job, "is made", nil)
	return job
}

// finish ends that Job.
func (p *place) finish(cj *batchv1.CronJob, n int, as kubebatchv1.JobConditionType) {
	p.Helper()
	if err := env.EndJob(p.Context(), p.job(cj, n), as); err != nil {
		p.Fatal(err)
	}
}
