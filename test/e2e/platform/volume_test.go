// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// TestVolumesGrow proves that a volume in use grows without a restart, and that one that would have to shrink is
// refused.
func TestVolumesGrow(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "grow")
	spec := redisApplication()
	spec.Components[0].Storage.Size = resource.MustParse("320Mi")
	a := s.CreateApplication("fills", spec)
	a.WaitReady()
	says(a, "OK", "SET", "kept", "yes")
	pod, size := a.Pods()[0], dataSize(a)
	a.Update(framework.WithComponent(framework.RedisComponent,
		func(c *platformv1.ApplicationComponent) { c.Storage.Size = resource.MustParse("512Mi") }))
	start := time.Now()
	a.Eventually(framework.VolumeGrowthTimeout, "the file system in the pod has grown", func() error {
		if now := dataSize(a); now < size+(128<<20) {
			return fmt.Errorf("it had %d MiB and has %d MiB; the Application says: %s", size>>20, now>>20,
				framework.Describe(a.Object().Status.Conditions))
		}
		return nil
	})
	t.Logf("the file system grew within %s", framework.FormatSeconds(time.Since(start)))
	a.WaitReady()
	if after := a.Pods()[0]; after.UID != pod.UID ||
		after.Status.ContainerStatuses[0].RestartCount != pod.Status.ContainerStatuses[0].RestartCount {
		t.Error("the pod was replaced or restarted")
	}
	says(a, "yes", "GET", "kept")
	smaller := framework.WithComponent(framework.RedisComponent,
		func(c *platformv1.ApplicationComponent) { c.Storage.Size = resource.MustParse("400Mi") })
	rejects(a, smaller, platformv1.ReasonVolumeShrinkRefused, "512Mi", "400Mi")
	says(a, "yes", "GET", "kept")
	a.Update(framework.WithComponent(framework.RedisComponent,
		func(c *platformv1.ApplicationComponent) { c.Storage.Size = resource.MustParse("512Mi") }))
	a.WaitReady()
}

// dataSize is the size of the file system that the data is on, in bytes, as the pod sees it.
func dataSize(a *framework.Application) int64 {
	a.Helper()
	size, err := a.FileSystem(a.Pods()[0].Name, framework.RedisComponent, "/data")
	if err != nil {
		a.Fatal(err)
	}
	return size
}
