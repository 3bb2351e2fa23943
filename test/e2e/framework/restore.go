// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

const (
	// PutKeysScript writes 2,000 keys, and SumKeysScript says whether they are the same.
	PutKeysScript = `for n = 1, 2000 do redis.call('SET', 'kept:' .. n, string.rep(n * n, 20)) end return 'done'`
	// SumKeysScript prints the number of keys and a sum over them.
	SumKeysScript = `local all = '' for n = 1, 2000 do all = redis.sha1hex(all .. (redis.call('GET', 'kept:' .. n) or ` +
		`'nothing')) end return all`
)

// WithRestoreFrom has a Redis begin with a Backup.
func WithRestoreFrom(backup string) Setting {
	return func(spec *databasev1.RedisSpec) { spec.RestoreFrom = &platformv1.RestoreFrom{Backup: backup} }
}

// ExpectRestored waits until an instance is ready, and sees that it has the keys, before and after its pod is another
// one, and that it says where from.
func (i *Instance) ExpectRestored(sum, backup string) {
	i.Helper()
	i.WaitReady()
	if got := i.MustDo("EVAL", SumKeysScript, "0"); got != sum {
		i.Errorf("Redis %q has the sum %s, want %s", i.Name, got, sum)
	}
	if c := meta.FindStatusCondition(i.Object().Status.Conditions, platformv1.RestoredCondition); c == nil ||
		c.Reason != platformv1.ReasonRestored {
		i.Errorf("it says %s", Describe(i.Object().Status.Conditions))
	}
	app := &platformv1.Application{}
	i.MustGet(i.Application(), app)
	if from := app.Status.RestoredFrom; from == nil || from.Backup != backup || from.Size == 0 {
		i.Errorf("its Application began with %+v", from)
	}
	i.MustDo("SET", "new", "new")
	before := i.Pod()
	i.Delete(before)
	i.Eventually(ReadyTimeout, "another pod is there", func() error {
		pod := &corev1.Pod{}
		if err := i.Get(i.PodName(), pod); err != nil {
			return err
		}
		if pod.UID == before.UID {
			return fmt.Errorf("it is still the same")
		}
		return nil
	})
	i.WaitReady()
	if got := i.MustDo("EVAL", SumKeysScript, "0"); got != sum || i.MustDo("GET", "new") != "new" {
		i.Errorf("after its pod was replaced Redis %q has the sum %s, want %s", i.Name, got, sum)
	}
}

// NewRestoreOperation returns an Operation that puts the data of a Backup in the place of that of a target.
func NewRestoreOperation(name, backup string, target platformv1.TargetReference) *platformv1.Operation {
	return &platformv1.Operation{ObjectMeta: ObjectMeta(name), Spec: platformv1.OperationSpec{
		TemplateRef: "Restore", TargetRef: target,
		Parameters: platformv1.Parameters{"backup": platformv1.ParameterValue(backup)},
	}}
}
