// SPDX-License-Identifier: Apache-2.0

//go:build integration

package chart_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// TestPostgreSQLArchive proves that a PostgreSQL with an archive archives there, with what its user supplies, and that
// what is wrong with it is said in the answer.
func TestPostgreSQLArchive(t *testing.T) {
	r := install(t)
	r.start()
	namespace := env.Namespace(t)
	r.judges(namespace)
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: namespace}, Provisioner: "example.com/none"}
	if err := env.Client.Create(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = env.Client.Delete(context.Background(), class) }) // The API server goes too.
	u := newUser(t)
	spec := `version: "17"
storage: {storageClassName: ` + class.Name + `}
running: true
archive:
  endpoint: https://minio.storage.svc:9000
  bucket: logs
  accessKey: shop
  secretKeyFrom: {name: s3, key: secret-key}
  caFrom: {name: s3, key: ca.crt}
  timeout: 1m30s
`
	for text, edit := range map[string][2]string{
		"spec.archive.endpoint in body should match": {
			"https://minio.storage.svc:9000", "minio.storage.svc:9000"},
		"archive.caFrom is for an endpoint that begins with https": {
			"https://minio", "http://minio"},
		"archive.timeout must be from 1s to 24h": {
			"1m30s", "25h"},
		"set spec.archive.bucket in place of the parameter archive.bucket": {
			"running: true", "parameters: {archive.bucket: logs}"},
		`parameter "archive.alarm"`: {
			"running: true", "parameters: {archive.alarm: \"100\"}"},
		`parameter "archive_mode" cannot be set: it is set by archive`: {
			"running: true", "parameters: {archive_mode: \"on\"}"},
		"archive.bucket needs archive.endpoint, archive.accessKey and archive.secretKeyFrom": {
			"  secretKeyFrom: {name: s3, key: secret-key}\n", ""},
		"spec.archive.addressing: Unsupported value": {"  bucket: logs", "  bucket: logs\n  addressing: Host"},
		"archive.bucket, archive.endpoint and either archive.accessKey or the credential archive-account say together": {
			spec[strings.Index(spec, "archive:"):], "parameters: {archive.parallel: \"4\"}\n"},
	} {
		err := u.Create(t.Context(), postgresql(t, namespace, "bad", strings.Replace(spec, edit[0], edit[1], 1)))
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", edit[1], err)
		}
	}
	db := postgresql(t, namespace, "db", spec)
	if err := u.Create(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	r.says(db, "Stalled", "status", "phase")
	if err := env.Client.Create(t.Context(),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "s3"},
			StringData: map[string]string{"secret-key": "the secret key", "ca.crt": "the certificate"}}); err != nil {
		t.Fatal(err)
	}
	set := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
		Name: "postgresql-db-postgresql-main"}}
	testkit.WaitFor(t, env.Client, set, "archives", func() error {
		for _, text := range []string{`/zeroinfra/bin/agent-ops postgresql archive`, `"90s"`,
			`"https://minio.storage.svc:9000"`, `"path":"archive-ca/password"`} {
			if !strings.Contains(string(set.Spec.Plan.Raw)+string(set.Spec.Template.Raw), text) {
				return fmt.Errorf("there is no %s in it", text)
			}
		}
		if strings.Contains(string(set.Spec.Plan.Raw), "the secret key") {
			return fmt.Errorf("the secret key is in the plan")
		}
		if len(set.Spec.Conditions) == 0 || set.Spec.Conditions[0].Type != "Archiving" {
			return fmt.Errorf("it declares %v", set.Spec.Conditions)
		}
		return nil
	})
	mounted := &corev1.Secret{}
	if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "postgresql-db-archive"},
		mounted); err != nil || string(mounted.Data["password"]) != "the secret key" {
		t.Errorf("the pods mount %q, %v", mounted.Data, err)
	}
	r.nothingDenied()
}
