// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/zeroinfra/platform-core/agentproto/mover"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// ofObjects is the version of a plugin whose backups are of objects.
const ofObjects = "3.4.0"

// withObjects installs it.
func withObjects(t *testing.T) {
	t.Helper()
	const from = "      - name: rdb\n        description: A snapshot of all keys"
	derived(t, ofObjects, "1.0.0", func(parts map[string]map[string]string) {
		replaced(t, parts, "components", "components.yaml", "        default: true\n", "")
		replaced(t, parts, "components", "components.yaml", from, `      - name: objects
        default: true
        objects: Incremental
        from: [{role: primary}]
        env:
          - {name: S3_ENDPOINT, value: "http://${source.fqdn}:9000"}
          - {name: S3_ACCESS_KEY, secret: {credential: default, key: username}}
          - {name: S3_SECRET_KEY, secret: {credential: default, key: password}}
        restore:
          env:
            - {name: S3_ENDPOINT, value: "http://${app.name}.${app.namespace}.svc:9000"}
            - {name: S3_ACCESS_KEY, credential: default, key: username}
            - {name: S3_SECRET_KEY, credential: default, key: password}
`+from)
	})
}

// Objects are put into servers that run, by one mover, and the instance is ready when they are there; in place they are
// refused.
func TestRestoreOfObjects(t *testing.T) {
	withObjects(t)
	namespace, played := keeping(t)
	t.Cleanup(func() { played.moves = nil })
	played.moves = func(mover.Plan) (mover.Result, platformv1.OperationPhase) {
		return mover.Result{Digest: "sha256:1", Size: 10, RawSize: 30}, platformv1.OperationSucceeded
	}
	run(t, -1)
	app := application(namespace)
	app.Spec.PluginVersion = ofObjects
	create(t, app)
	testkit.WaitForReady(t, env.Client, app)
	ends(t, operate(t, app, "nightly", "Backup", nil, "repository", "store"), platformv1.OperationSucceeded)
	backup := backupIs(t, namespace, "nightly-backup", platformv1.BackupCompleted)
	taken := played.verbs(t, mover.VerbBackup)
	if len(taken) != 1 || backup.Spec.Method != "objects" {
		t.Fatalf("there were %d movers of method %q", len(taken), backup.Spec.Method)
	}
	if plan := moverPlan(t, taken[0]); plan.Objects == nil || plan.Objects.Mode != mover.ObjectsIncremental ||
		len(plan.Command) > 0 {
		t.Errorf("the plan is %+v", plan)
	}
	tries := 0
	stop, open := gate(t)
	played.moves = func(p mover.Plan) (mover.Result, platformv1.OperationPhase) {
		if p.Verb != mover.VerbRestore {
			return mover.Result{}, platformv1.OperationSucceeded
		}
		if tries++; tries == 1 {
			return mover.Result{Reason: mover.ReasonCommandFailed, Message: "the storage cannot be reached"},
				platformv1.OperationFailed
		}
		stop()
		return mover.Result{Digest: "sha256:1", Size: 10, RawSize: 30}, platformv1.OperationSucceeded
	}
	b := application(namespace)
	b.Name, b.Spec.PluginVersion, b.Spec.RestoreFrom = "redis-b", ofObjects, &platformv1.RestoreFrom{Backup: backup.Name}
	create(t, b)
	testkit.WaitFor(t, env.Client, b, "its servers run, and wait for the objects", func() error {
		ready := meta.FindStatusCondition(b.Status.Conditions, platformv1.ReadyCondition)
		if ready == nil || !strings.Contains(ready.Message,
			`the data of Backup "nightly-backup", 30 bytes, is on its way into the servers`) {
			return fmt.Errorf("it says %+v", b.Status.Conditions)
		}
		return nil
	})
	if pods := podNames(t, namespace); !slices.ContainsFunc(pods,
		func(name string) bool { return strings.HasPrefix(name, "redis-b-") }) {
		t.Errorf("there are %v", pods)
	}
	open()
	begun(t, b, backup)
	jobs := played.verbs(t, mover.VerbRestore)
	if len(jobs) != 2 {
		t.Fatalf("there were %d movers", len(jobs))
	}
	pod, plan := jobs[1].Spec.Template.Spec, moverPlan(t, jobs[1])
	if plan.Objects == nil || plan.Volume != nil || plan.Backup.Digest != "sha256:1" ||
		!slices.ContainsFunc(pod.Containers[0].Env, func(e corev1.EnvVar) bool {
			return e.Name == mover.ObjectsEndpoint && e.Value == "http://redis-b."+namespace+".svc:9000"
		}) {
		t.Errorf("the plan is %+v, the pod %+v", plan, pod)
	}
	op := operate(t, app, "back", "Restore", nil, "backup", backup.Name)
	ends(t, op, platformv1.OperationFailed)
	if !strings.Contains(op.Status.Error, "make another one with restoreFrom") {
		t.Errorf("it says %s", op.Status.Error)
	}
}
