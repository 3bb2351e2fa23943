// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	storagev1 "github.com/zeroinfra/storage-operator/api/v1"
)

const (
	// storageReadyIn is how long pools of four servers may take on a busy machine of two cores.
	storageReadyIn = 10 * time.Minute
	// objectIn is when a client gives up on one request.
	objectIn = 10 * time.Second
	// objectEvery is how often a writer puts an object.
	objectEvery = 50 * time.Millisecond
	// s3Port is where clients are served.
	s3Port = 9000
)

// objectStorage is one ObjectStorage of a test.
type objectStorage struct {
	*space
	name string
	ways *ways
}

// objectStorage creates an ObjectStorage that asks for little, and does not wait for it.
func (s *space) objectStorage(name string, change func(*storagev1.ObjectStorageSpec)) *objectStorage {
	s.Helper()
	obj := &storagev1.ObjectStorage{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.ObjectStorageSpec{
		Backend: storagev1.BackendMinio, Version: "2026.2",
		Storage: storagev1.ObjectStorageVolume{Size: resource.MustParse("256Mi")},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20m"), corev1.ResourceMemory: resource.MustParse("128Mi")},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")},
		},
		DeletionPolicy: platformv1.DeletionPolicyDelete,
	}}
	change(&obj.Spec)
	s.create(obj)
	return &objectStorage{space: s, name: name, ways: s.ways()}
}

func (o *objectStorage) in(t *testing.T) *objectStorage {
	return &objectStorage{space: o.space.in(t), name: o.name, ways: o.ways}
}

// object returns the ObjectStorage as it is.
func (o *objectStorage) object() *storagev1.ObjectStorage {
	o.Helper()
	obj := &storagev1.ObjectStorage{}
	o.mustGet(o.name, obj)
	return obj
}

// application is what it compiles to.
func (o *objectStorage) application() *application {
	return &application{space: o.space, name: platformv1.ApplicationNameFor("ObjectStorage", o.name)}
}

// pod is the name of a server.
func (o *objectStorage) pod(pool string, ordinal int) string {
	return fmt.Sprintf("%s-minio-%s-%d", o.application().name, pool, ordinal)
}

// change changes the spec as "kubectl patch" does, and does not wait.
func (o *objectStorage) change(change func(*storagev1.ObjectStorageSpec)) {
	o.Helper()
	obj := o.object()
	before := obj.DeepCopy()
	change(&obj.Spec)
	if err := world.client.Patch(o.ctx, obj, client.MergeFrom(before)); err != nil {
		o.Fatalf("cannot change ObjectStorage %q: %v", o.name, err)
	}
}

// ready waits until the instance is ready at its present generation.
func (o *objectStorage) ready() time.Duration {
	o.Helper()
	return o.eventually(storageReadyIn, fmt.Sprintf("ObjectStorage %q becomes ready", o.name), func() error {
		obj := &storagev1.ObjectStorage{}
		if err := o.get(o.name, obj); err != nil {
			return err
		}
		return readyNow(obj, obj.Status.ObservedGeneration)
	})
}

// binding is what the Secret for clients has.
func (o *objectStorage) binding() map[string]string {
	o.Helper()
	secret := &corev1.Secret{}
	o.mustGet(o.object().Status.BindingName, secret)
	values := map[string]string{}
	for key, value := range secret.Data {
		values[key] = string(value)
	}
	return values
}

// as is a client of somebody that is served by one of the pods. It speaks TLS where the instance does, and looks for its name there.
func (o *objectStorage) as(pod, user, key string) *minio.Client {
	o.Helper()
	bound := o.binding()
	address := o.ways.to(pod, s3Port)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(bound["ca.crt"]))
	transport := &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, address)
		},
		TLSClientConfig: &tls.Config{RootCAs: roots}, ResponseHeaderTimeout: objectIn,
	}
	s3, err := minio.New(net.JoinHostPort(bound["host"], bound["port"]), &minio.Options{
		Creds: credentials.NewStaticV4(user, key, ""), Secure: strings.HasPrefix(bound["endpoint"], "https:"), Transport: transport,
		Region: "us-east-1", BucketLookup: minio.BucketLookupPath, MaxRetries: 1,
	})
	if err != nil {
		o.Fatal(err)
	}
	return s3
}

// root is a client that may do everything.
func (o *objectStorage) root(pod string) *minio.Client {
	o.Helper()
	bound := o.binding()
	return o.as(pod, bound["accessKey"], bound["secretKey"])
}

// putObject puts an object. Nil says that it is acknowledged.
func putObject(ctx context.Context, s3 *minio.Client, bucket, name, text string) error {
	ctx, cancel := context.WithTimeout(ctx, objectIn)
	defer cancel()
	_, err := s3.PutObject(ctx, bucket, name, strings.NewReader(text), int64(len(text)), minio.PutObjectOptions{})
	return err
}

// getObject reads an object.
func getObject(ctx context.Context, s3 *minio.Client, bucket, name string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, objectIn)
	defer cancel()
	object, err := s3.GetObject(ctx, bucket, name, minio.GetObjectOptions{})
	if err != nil {
		return "", err
	}
	defer object.Close()
	data, err := io.ReadAll(object)
	return string(data), err
}

// does waits until a request is answered: one that meets a pod as it comes or goes is made again.
func (o *objectStorage) does(what string, request func() error) {
	o.Helper()
	o.eventually(spreadIn, what, request)
}

// puts waits until an object is acknowledged.
func (o *objectStorage) puts(s3 *minio.Client, bucket, name, text string) {
	o.Helper()
	o.does(fmt.Sprintf("object %s/%s is put", bucket, name), func() error { return putObject(o.ctx, s3, bucket, name, text) })
}

// refuses waits for the answer that somebody may not put an object.
func (o *objectStorage) refuses(s3 *minio.Client, bucket, name string, codes ...string) {
	o.Helper()
	o.does(fmt.Sprintf("object %s/%s is refused", bucket, name), func() error {
		err := putObject(o.ctx, s3, bucket, name, "text")
		if err == nil {
			o.Fatalf("object %s/%s was put", bucket, name)
		}
		if !slices.Contains(codes, minio.ToErrorResponse(err).Code) {
			return err
		}
		return nil
	})
}

// goes deletes a pod at once, and waits until there is another one that is ready.
func (o *objectStorage) goes(name string) {
	o.Helper()
	before := &corev1.Pod{}
	o.mustGet(name, before)
	o.delete(before, graceZero)
	o.eventually(readyIn, fmt.Sprintf("another pod %s is ready", name), func() error { return o.replaced(before) })
}

// wantObject waits until an object reads as it was put.
func (o *objectStorage) wantObject(s3 *minio.Client, bucket, name, text string) {
	o.Helper()
	o.eventually(spreadIn, fmt.Sprintf("object %s/%s is read", bucket, name), func() error {
		got, err := getObject(o.ctx, s3, bucket, name)
		if err == nil && got != text {
			o.Fatalf("object %s/%s is %q, want %q", bucket, name, got, text)
		}
		return err
	})
}

// inside returns the Entity of a thing inside; nil where there is none.
func (o *objectStorage) inside(entityType, name string) *platformv1.Entity {
	o.Helper()
	var list platformv1.EntityList
	if err := world.client.List(o.ctx, &list, client.InNamespace(o.space.name)); err != nil {
		o.Fatal(err)
	}
	for i := range list.Items {
		if spec := &list.Items[i].Spec; spec.ApplicationRef.Name == o.application().name && spec.Type == entityType && spec.Name == name {
			return &list.Items[i]
		}
	}
	return nil
}

// objectWriter puts one object after the other, and remembers which of them were acknowledged.
type objectWriter struct {
	*objectStorage
	s3             *minio.Client
	bucket, folder string
	count          atomic.Int64
	stop           chan struct{}
	done           chan []string
}

// startWriter begins to put objects into a folder by way of one of the pods, and returns once the first one was acknowledged.
func (o *objectStorage) startWriter(pod, bucket, folder string) *objectWriter {
	o.Helper()
	w := &objectWriter{objectStorage: o, s3: o.root(pod), bucket: bucket, folder: folder, stop: make(chan struct{}), done: make(chan []string, 1)}
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
		case <-w.ctx.Done():
			return
		case <-turn.C:
		}
		name := fmt.Sprintf("%s/%06d", w.folder, i)
		if putObject(w.ctx, w.s3, w.bucket, name, "text of "+name) == nil {
			acknowledged = append(acknowledged, name)
			w.count.Add(1)
		}
	}
}

// goesOn waits until more objects are acknowledged than are now.
func (w *objectWriter) goesOn() {
	w.Helper()
	before := w.count.Load()
	w.eventually(settleIn, "an object is acknowledged", func() error {
		if w.count.Load() == before {
			return fmt.Errorf("there are %d", before)
		}
		return nil
	})
}

// end stops it, once it has gone on, and fails the test where an object that was acknowledged is not there, by way of another pod.
func (w *objectWriter) end(pod string) {
	w.Helper()
	w.goesOn()
	close(w.stop)
	acknowledged := <-w.done
	w.Logf("%d objects were acknowledged", len(acknowledged))
	reader := w.root(pod)
	for _, name := range acknowledged {
		w.wantObject(reader, w.bucket, name, "text of "+name)
	}
}
