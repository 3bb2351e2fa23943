// SPDX-License-Identifier: Apache-2.0

//go:build integration

package claim

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// reporterDomains returns the domains of the operators that wrote statuses of Applications in a namespace.
func reporterDomains(t *testing.T, namespace string) []string {
	t.Helper()
	var found []string
	for _, domain := range domains {
		accesses, err := env.Accesses("system:serviceaccount:" + systemOf(domain) + ":controller-manager")
		if err != nil {
			t.Fatal(err)
		}
		for access := range accesses {
			if access.Verb == "patch" && access.Resource == "applications/status" && access.Namespace == namespace {
				found = append(found, domain)
			}
		}
	}
	return slices.Compact(found)
}

// holder returns the domain of the operator that holds the Lease.
func holder(t *testing.T) string {
	t.Helper()
	lease := &coordinationv1.Lease{}
	err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: leaseNamespace, Name: leaseName}, lease)
	if err != nil {
		t.Fatal(err)
	}
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	domain, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
	return domain
}

func TestOneOperatorSpeaksAndAnotherWhenItDies(t *testing.T) {
	kill := map[string]func(){}
	for _, domain := range domains {
		_, kill[domain] = mortal(t, domain)
	}
	told := func(namespace string) {
		t.Helper()
		for i := range 5 {
			create(t, testkit.BuildApplication(namespace, fmt.Sprintf("a-%d", i)).Plugin("nothing", "1.0.0").Build())
		}
		for i := range 5 {
			app := testkit.BuildApplication(namespace, fmt.Sprintf("a-%d", i)).Build()
			testkit.WaitForCondition(t, env.Client, app, platformv1.StalledCondition, metav1.ConditionTrue)
		}
	}
	first := env.Namespace(t)
	told(first)
	was := holder(t)
	if got := reporterDomains(t, first); !slices.Equal(got, []string{was}) {
		t.Fatalf("%v spoke, and %q holds the Lease", got, was)
	}
	kill[was]()
	second := env.Namespace(t)
	told(second)
	is := holder(t)
	if got := reporterDomains(t, second); is == was || !slices.Equal(got, []string{is}) {
		t.Fatalf("%v spoke, %q holds the Lease, %q held it before", got, is, was)
	}
}
