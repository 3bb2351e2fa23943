// SPDX-License-Identifier: Apache-2.0

package framework

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// Effect is what a change may do to a running instance.
type Effect string

// PluginUpgrade is an instance of a typed kind that is to go from one version of its plugin to the next.
type PluginUpgrade struct {
	*Application
	// From is the version that it begins with, and To the next one.
	From, To string
	// Target is the kind and name of the object that declares it.
	Target platformv1.TargetReference
	// Processes says which one there is in each pod.
	Processes func() map[string]string
	Before    map[string]string
	// Effect is what the next version does to it: untouched, inPlace or newPod.
	Effect Effect
}

// ProcessMarks is which pods and processes there are.
func (u *PluginUpgrade) ProcessMarks() map[string]string {
	u.Helper()
	marks := u.ProcessStarts()
	for pod, process := range u.Processes() {
		marks[pod] += ", process " + process
	}
	return marks
}

// Processes is what each server calls its present run.
func (i *Instance) Processes() map[string]string {
	i.Helper()
	all := map[string]string{}
	for _, m := range i.Object().Status.Members {
		info, err := i.RedisCLI(i.AccountAt(m.Name), "INFO", "server")
		if err != nil {
			i.Fatal(err)
		}
		all[m.Name] = InfoField(info, "run_id")
	}
	return all
}

// NewUpgradablePostgreSQL asks for a primary and a replica whose copy is waited for, and for metrics.
func NewUpgradablePostgreSQL(name string) *databasev1.PostgreSQL {
	return &databasev1.PostgreSQL{ObjectMeta: ObjectMeta(name), Spec: databasev1.PostgreSQLSpec{
		InstanceSpec: platformv1.InstanceSpec{
			Version: PostgreSQLVersion,
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20m"),
					corev1.ResourceMemory: resource.MustParse("96Mi")},
				Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("384Mi")},
			},
			Storage: platformv1.InstanceStorage{Size: resource.MustParse("512Mi")},
			Parameters: platformv1.Parameters{"max_connections": "40", "max_wal_size": "64MB", "min_wal_size": "32MB",
				"wal_keep_size": "32MB", "max_slot_wal_keep_size": "64MB"},
			Monitoring:     &platformv1.Monitoring{Enabled: true},
			DeletionPolicy: platformv1.DeletionPolicyDelete,
		},
		PluginVersion: OriginalVersion,
		Replicas:      1,
		Synchronous: &databasev1.PostgreSQLSynchronous{Replicas: new(int32(1)), Method: databasev1.SynchronousFirst,
			Shortage: platformv1.ShortageContinue},
	}}
}
