// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// growIn is how long an online expansion may take: a kubelet looks at a volume that is in use once in a minute or so.
const growIn = 8 * time.Minute

// TestVolumesGrow proves that a volume in use grows without a restart, and that one that would have to shrink is refused.
func TestVolumesGrow(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "grow")
	spec := redisApplication()
	spec.Components[0].Storage.Size = resource.MustParse("320Mi")
	a := s.apply("fills", spec)
	a.ready()
	a.says("OK", "SET", "kept", "yes")
	pod, size := a.pods()[0], a.dataSize()
	a.update(component(redisComponent, func(c *platformv1.ApplicationComponent) { c.Storage.Size = resource.MustParse("512Mi") }))
	start := time.Now()
	a.eventually(growIn, "the file system in the pod has grown", func() error {
		if now := a.dataSize(); now < size+(128<<20) {
			return fmt.Errorf("it had %d MiB and has %d MiB; the Application says: %s", size>>20, now>>20, describe(a.object().Status.Conditions))
		}
		return nil
	})
	t.Logf("the file system grew within %s", seconds(time.Since(start)))
	a.ready()
	if after := a.pods()[0]; after.UID != pod.UID || after.Status.ContainerStatuses[0].RestartCount != pod.Status.ContainerStatuses[0].RestartCount {
		t.Error("the pod was replaced or restarted")
	}
	a.says("yes", "GET", "kept")
	smaller := component(redisComponent, func(c *platformv1.ApplicationComponent) { c.Storage.Size = resource.MustParse("400Mi") })
	a.rejects(smaller, platformv1.ReasonVolumeShrinkRefused, "512Mi", "400Mi")
	a.says("yes", "GET", "kept")
	a.update(component(redisComponent, func(c *platformv1.ApplicationComponent) { c.Storage.Size = resource.MustParse("512Mi") }))
	a.ready()
}

// dataSize is the size of the file system that the data is on, in bytes, as the pod sees it.
func (a *application) dataSize() int64 {
	a.Helper()
	size, err := a.fileSystem(a.pods()[0].Name, redisComponent, "/data")
	if err != nil {
		a.Fatal(err)
	}
	return size
}
