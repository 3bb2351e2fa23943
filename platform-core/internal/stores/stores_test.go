// SPDX-License-Identifier: Apache-2.0

package stores_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/stores"
)

// A key that was made from a file with a newline at its end would sign requests that no storage takes.
func TestValuesOfSecretsAreChecked(t *testing.T) {
	r := &platformv1.BackupRepository{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "store"}}
	r.Spec.S3 = &platformv1.S3Repository{CredentialsSecretRef: platformv1.SecretReference{Name: "keys"},
		CASecretRef: &platformv1.AuthorityReference{Name: "keys", Key: "ca.crt"}}
	r.Spec.Encryption = &platformv1.BackupEncryption{
		PassphraseSecretRef: platformv1.PassphraseReference{Name: "keys", Key: "passphrase"}}
	const invalid = platformv1.ReasonSecretInvalid
	for name, c := range map[string]struct{ key, value, reason, says string }{
		"all is well":           {},
		"no secret key":         {"secretKey", "", platformv1.ReasonSecretNotFound, `has no key "secretKey"`},
		"newline at the end":    {"secretKey", "s3cret\n", invalid, `"secretKey" of Secret "keys" ends with a newline`},
		"blank at the start":    {"accessKey", " me", invalid, `"accessKey" of Secret "keys" begins with a space`},
		"newline of passphrase": {"passphrase", "a long passphrase\r\n", invalid, `"passphrase" of Secret "keys"`},
	} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "keys"}, Data: map[string][]byte{
			"accessKey": []byte("me"), "secretKey": []byte("s3cret"), "passphrase": []byte("a long passphrase"),
			"ca.crt": []byte("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n")}}
		if c.key != "" {
			secret.Data[c.key] = []byte(c.value)
		}
		lack, err := stores.Missing(t.Context(), fake.NewClientBuilder().WithObjects(secret).Build(), r)
		if err != nil {
			t.Fatal(err)
		}
		if lack.Reason != c.reason || !strings.Contains(lack.Message, c.says) {
			t.Errorf("%s: got %+v, want %s saying %q", name, lack, c.reason, c.says)
		}
	}
}
