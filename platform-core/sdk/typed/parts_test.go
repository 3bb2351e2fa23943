// SPDX-License-Identifier: Apache-2.0

package typed

import (
	"testing"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

func TestHealthyPodsAreCountedByRole(t *testing.T) {
	c := &platformv1.ComponentState{Replicas: 4, Pods: []platformv1.PodState{
		{Role: "primary", Health: "Healthy"}, {Role: "replica", Health: "Healthy"}, {Role: "replica", Health: "Starting"}, {},
	}}
	for role, want := range map[string]int{"": 2, "primary": 1, "replica": 1, "witness": 0} {
		if got := HealthyPods(c.Pods, role); got != want {
			t.Errorf("%q: got %d, want %d", role, got, want)
		}
	}
	if got := HealthyOf(c); got != "2/4" {
		t.Errorf("got %s", got)
	}
}

func TestSetsOfAllComponents(t *testing.T) {
	app := &platformv1.Application{}
	if got := SetsOf(app); got != nil {
		t.Errorf("without components: got %v", got)
	}
	app.Status.Components = []platformv1.ComponentState{{Sets: []platformv1.SetState{{Name: "a"}, {Name: "b"}}}, {},
		{Sets: []platformv1.SetState{{Name: "c"}}}}
	got := ""
	for _, set := range SetsOf(app) {
		got += set.Name
	}
	if got != "abc" {
		t.Errorf("got the sets %q", got)
	}
}

func TestPasswordFromHasADefaultKey(t *testing.T) {
	if PasswordFrom(nil) != nil || Credentials("admin", nil) != nil {
		t.Error("a reference is made of none")
	}
	for key, want := range map[string]string{"": "password", "other": "other"} {
		from := &platformv1.SecretKeyReference{Name: "s", Key: key}
		if got := *PasswordFrom(from); got != (platformv1.SecretKeyReference{Name: "s", Key: want}) {
			t.Errorf("%q: got %v", key, got)
		}
		if got := Credentials("admin", from); len(got) != 1 || got[0].Name != "admin" || got[0].PasswordFrom.Key != want {
			t.Errorf("%q: got %v", key, got)
		}
		if from.Key != key {
			t.Error("the reference of the caller was changed")
		}
	}
}

func TestAuthorityHasADefaultKey(t *testing.T) {
	if Authority("ca", nil) != nil {
		t.Error("a reference is made of none")
	}
	for key, want := range map[string]string{"": "ca.crt", "other": "other"} {
		got := Authority("ca", &platformv1.AuthorityReference{Name: "s", Key: key})
		if len(got) != 1 || got[0] != Supplied("ca", "s", want) {
			t.Errorf("%q: got %v", key, got)
		}
	}
}
