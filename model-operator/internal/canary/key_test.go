// SPDX-License-Identifier: Apache-2.0

package canary

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

// secrets reads the data of Secrets by their names, and counts how often.
type secrets struct {
	client.Reader
	data  map[string]map[string][]byte
	reads int
}

// Get implements client.Reader.
func (s *secrets) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	s.reads++
	data, found := s.data[key.Name]
	if !found {
		return fmt.Errorf("there is no %s", key)
	}
	obj.(*corev1.Secret).Data = data
	return nil
}

// The key is read once, and again after a pod has failed.
func TestUnlock(t *testing.T) {
	i := &aiv1.Inference{}
	s := &secrets{data: map[string]map[string][]byte{"door": {"password": []byte("one"), "other": []byte("two")}}}
	c, m := &Controller{live: s}, &memory{}
	unlock := func(want string, reads int) {
		t.Helper()
		if err := c.unlock(t.Context(), i, m); err != nil || m.key != want || s.reads != reads {
			t.Errorf("got %q and %v by %d reads, want %q by %d", m.key, err, s.reads, want, reads)
		}
	}
	unlock("", 0)
	i.Spec.APIKeySecretRef = &platformv1.SecretKeyReference{Name: "door"}
	unlock("one", 1)
	m.measured = m.measured.with(map[string]sample{"a": {}})
	unlock("one", 1)
	s.data["door"]["password"] = []byte("new")
	unlock("one", 1)
	m.measured = m.measured.with(map[string]sample{"a": {}, "b": {failure: "401"}})
	unlock("new", 2)
	m.measured = m.measured.with(map[string]sample{"a": {}, "b": {}})
	unlock("new", 2)
	i.Spec.APIKeySecretRef = nil
	unlock("", 2)
	i.Spec.APIKeySecretRef = &platformv1.SecretKeyReference{Name: "door", Key: "other"}
	unlock("two", 3)
	i.Spec.APIKeySecretRef.Name, m.key = "gone", ""
	if err := c.unlock(t.Context(), i, m); err == nil || !strings.Contains(err.Error(), `cannot read Secret "gone"`) {
		t.Errorf("without the Secret: %v", err)
	}
}
