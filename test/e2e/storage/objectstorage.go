// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// objectEvery is how often a writer puts an object.
const objectEvery = 50 * time.Millisecond

// goes deletes a pod at once, and waits until there is another one that is ready.
func goes(o *framework.ObjectStorage, name string) {
	o.Helper()
	before := &corev1.Pod{}
	o.MustGet(name, before)
	o.Delete(before, framework.GraceZero)
	o.Eventually(framework.ReadyTimeout, fmt.Sprintf("another pod %s is ready", name),
		func() error { return o.PodReplaced(before) })
}

// inside returns the Entity of a thing inside; nil where there is none.
func inside(o *framework.ObjectStorage, entityType, name string) *platformv1.Entity {
	o.Helper()
	var list platformv1.EntityList
	if err := framework.Cluster.Client.List(o.Ctx, &list, client.InNamespace(o.Namespace.Name)); err != nil {
		o.Fatal(err)
	}
	for i := range list.Items {
		if spec := &list.Items[i].Spec; spec.ApplicationRef.Name == o.Application().Name && spec.Type == entityType &&
			spec.Name == name {
			return &list.Items[i]
		}
	}
	return nil
}

// objectWriter puts one object after the other, and remembers which of them were acknowledged.
type objectWriter struct {
	*framework.ObjectStorage
	s3             *minio.Client
	bucket, folder string
	count          atomic.Int64
	stop           chan struct{}
	done           chan []string
}

// StartWriter begins to put objects into a folder by way of one of the pods, and returns once the first one was
// acknowledged.
func startWriter(o *framework.ObjectStorage, pod, bucket, folder string) *objectWriter {
	o.Helper()
	w := &objectWriter{ObjectStorage: o, s3: o.RootClient(pod), bucket: bucket, folder: folder, stop: make(chan struct{}),
		done: make(chan []string, 1)}
	go w.write()
	w.goesOn()
	return w
}

func (w *objectWriter) write() {
	var acknowledged []string
	turn := time.NewTicker(objectEvery)
	defer turn.Stop()
	for i := 0; ; i++ {
		select {
		case <-w.stop:
			w.done <- acknowledged
			return
		case <-w.Ctx.Done():
			return
		case <-turn.C:
		}
		name := fmt.Sprintf("%s/%06d", w.folder, i)
		if framework.PutObject(w.Ctx, w.s3, w.bucket, name, "text of "+name) == nil {
			acknowledged = append(acknowledged, name)
			w.count.Add(1)
		}
	}
}

// goesOn waits until more objects are acknowledged than are now.
func (w *objectWriter) goesOn() {
	w.Helper()
	before := w.count.Load()
	w.Eventually(framework.SettleTimeout, "an object is acknowledged", func() error {
		if w.count.Load() == before {
			return fmt.Errorf("there are %d", before)
		}
		return nil
	})
}

// end stops it, once it has gone on, and fails the test where an object that was acknowledged is not there, by way of
// another pod.
func (w *objectWriter) end(pod string) {
	w.Helper()
	w.goesOn()
	close(w.stop)
	acknowledged := <-w.done
	w.Logf("%d objects were acknowledged", len(acknowledged))
	reader := w.RootClient(pod)
	for _, name := range acknowledged {
		w.WaitForObject(reader, w.bucket, name, "text of "+name)
	}
}
