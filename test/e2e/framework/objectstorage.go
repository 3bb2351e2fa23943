// SPDX-License-Identifier: Apache-2.0

package framework

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
	// storageReadyTimeout is how long pools of four servers may take on a busy machine of two cores.
	storageReadyTimeout = 10 * time.Minute
	// objectTimeout is when a client gives up on one request.
	objectTimeout = 10 * time.Second
	// s3Port is where clients are served.
	s3Port = 9000
)

// ObjectStorage is one ObjectStorage of a test.
type ObjectStorage struct {
	*Namespace
	Name         string
	PortForwards *PortForwards
}

// CreateObjectStorage creates an ObjectStorage that asks for little, and does not wait for it.
func (s *Namespace) CreateObjectStorage(name string, change func(*storagev1.ObjectStorageSpec)) *ObjectStorage {
	s.Helper()
	obj := &storagev1.ObjectStorage{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.ObjectStorageSpec{
		InstanceSpec: platformv1.InstanceSpec{
			Version: "2026.2",
			Storage: platformv1.InstanceStorage{Size: resource.MustParse("256Mi")},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20m"),
					corev1.ResourceMemory: resource.MustParse("128Mi")},
				Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")},
			},
			DeletionPolicy: platformv1.DeletionPolicyDelete,
		},
		Backend: storagev1.BackendMinio,
	}}
	change(&obj.Spec)
	s.Create(obj)
	return &ObjectStorage{Namespace: s, Name: name, PortForwards: s.NewPortForwards()}
}

// In returns the same instance for a subtest.
func (o *ObjectStorage) In(t *testing.T) *ObjectStorage {
	return &ObjectStorage{Namespace: o.Namespace.In(t), Name: o.Name, PortForwards: o.PortForwards}
}

// Object returns the ObjectStorage as it is.
func (o *ObjectStorage) Object() *storagev1.ObjectStorage {
	o.Helper()
	obj := &storagev1.ObjectStorage{}
	o.MustGet(o.Name, obj)
	return obj
}

// Update changes the spec as "kubectl patch" does, and does not wait.
func (o *ObjectStorage) Update(change func(*storagev1.ObjectStorageSpec)) {
	o.Helper()
	obj := o.Object()
	before := obj.DeepCopy()
	change(&obj.Spec)
	if err := Cluster.Client.Patch(o.Ctx, obj, client.MergeFrom(before)); err != nil {
		o.Fatalf("cannot change ObjectStorage %q: %v", o.Name, err)
	}
}

// Application is what it compiles to.
func (o *ObjectStorage) Application() *Application {
	return &Application{Namespace: o.Namespace, Name: platformv1.ApplicationNameFor("ObjectStorage", o.Name)}
}

// Pod is the name of a server.
func (o *ObjectStorage) Pod(pool string, ordinal int) string {
	return fmt.Sprintf("%s-minio-%s-%d", o.Application().Name, pool, ordinal)
}

// WaitReady waits until the instance is ready at its present generation.
func (o *ObjectStorage) WaitReady() time.Duration {
	o.Helper()
	return o.Eventually(storageReadyTimeout, fmt.Sprintf("ObjectStorage %q becomes ready", o.Name), func() error {
		obj := &storagev1.ObjectStorage{}
		if err := o.Get(o.Name, obj); err != nil {
			return err
		}
		return ReadyNow(obj, obj.Status.ObservedGeneration)
	})
}

// Binding is what the Secret for clients has.
func (o *ObjectStorage) Binding() map[string]string {
	o.Helper()
	secret := &corev1.Secret{}
	o.MustGet(o.Object().Status.BindingName, secret)
	values := map[string]string{}
	for key, value := range secret.Data {
		values[key] = string(value)
	}
	return values
}

// ClientAs is a client of somebody that is served by one of the pods. It speaks TLS where the instance does, and looks
// for its name there.
func (o *ObjectStorage) ClientAs(pod, user, key string) *minio.Client {
	o.Helper()
	bound := o.Binding()
	address := o.PortForwards.Address(pod, s3Port)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(bound["ca.crt"]))
	transport := &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, address)
		},
		TLSClientConfig: &tls.Config{RootCAs: roots}, ResponseHeaderTimeout: objectTimeout,
	}
	s3, err := minio.New(net.JoinHostPort(bound["host"], bound["port"]), &minio.Options{
		Creds: credentials.NewStaticV4(user, key, ""), Secure: strings.HasPrefix(bound["endpoint"], "https:"),
		Transport: transport,
		Region:    "us-east-1", BucketLookup: minio.BucketLookupPath, MaxRetries: 1,
	})
	if err != nil {
		o.Fatal(err)
	}
	return s3
}

// RootClient is a client that may do everything.
func (o *ObjectStorage) RootClient(pod string) *minio.Client {
	o.Helper()
	bound := o.Binding()
	return o.ClientAs(pod, bound["accessKey"], bound["secretKey"])
}

// PutObject puts an object. Nil says that it is acknowledged.
func PutObject(ctx context.Context, s3 *minio.Client, bucket, name, text string) error {
	ctx, cancel := context.WithTimeout(ctx, objectTimeout)
	defer cancel()
	_, err := s3.PutObject(ctx, bucket, name, strings.NewReader(text), int64(len(text)), minio.PutObjectOptions{})
	return err
}

// GetObject reads an object.
func GetObject(ctx context.Context, s3 *minio.Client, bucket, name string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, objectTimeout)
	defer cancel()
	object, err := s3.GetObject(ctx, bucket, name, minio.GetObjectOptions{})
	if err != nil {
		return "", err
	}
	defer object.Close()
	data, err := io.ReadAll(object)
	return string(data), err
}

// Retry waits until a request is answered: one that meets a pod as it comes or goes is made again.
func (o *ObjectStorage) Retry(what string, request func() error) {
	o.Helper()
	o.Eventually(EndpointTimeout, what, request)
}

// Put waits until an object is acknowledged.
func (o *ObjectStorage) Put(s3 *minio.Client, bucket, name, text string) {
	o.Helper()
	o.Retry(fmt.Sprintf("object %s/%s is put", bucket, name),
		func() error { return PutObject(o.Ctx, s3, bucket, name, text) })
}

// ExpectPutRefused waits for the answer that somebody may not put an object.
func (o *ObjectStorage) ExpectPutRefused(s3 *minio.Client, bucket, name string, codes ...string) {
	o.Helper()
	o.Retry(fmt.Sprintf("object %s/%s is refused", bucket, name), func() error {
		err := PutObject(o.Ctx, s3, bucket, name, "text")
		if err == nil {
			o.Fatalf("object %s/%s was put", bucket, name)
		}
		if !slices.Contains(codes, minio.ToErrorResponse(err).Code) {
			return err
		}
		return nil
	})
}

// WaitForObject waits until an object reads as it was put.
func (o *ObjectStorage) WaitForObject(s3 *minio.Client, bucket, name, text string) {
	o.Helper()
	o.Eventually(EndpointTimeout, fmt.Sprintf("object %s/%s is read", bucket, name), func() error {
		got, err := GetObject(o.Ctx, s3, bucket, name)
		if err == nil && got != text {
			o.Fatalf("object %s/%s is %q, want %q", bucket, name, got, text)
		}
		return err
	})
}
