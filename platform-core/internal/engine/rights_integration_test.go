// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// elsewhere are rights that no test of this package uses, and who does.
var elsewhere = map[string]string{
	"get apiextensions.k8s.io/customresourcedefinitions":    "sdk/operator, at its start",
	"create apiextensions.k8s.io/customresourcedefinitions": "sdk/operator, at its start",
	"patch apiextensions.k8s.io/customresourcedefinitions":  "sdk/operator, at its start",
	"create platform.zeroinfra.github.com/applications":     "sdk/typed, for every typed object",
	"engine platform.zeroinfra.github.com/plugins":          "config/rbac/operation_policy.yaml, which knows an engine by it",
	"get platform.zeroinfra.github.com/operations":          "controller/claim, of an Operation without a domain",
	"patch platform.zeroinfra.github.com/operations":        "controller/claim, of an Operation without a domain",
	"patch platform.zeroinfra.github.com/operations/status": "controller/operation",
	"delete platform.zeroinfra.github.com/operations":       "controller/operation, when the time to live is over",
	"delete platform.zeroinfra.github.com/plugins":          "controller/plugin, of a bundle that is gone",
	"create platform.zeroinfra.github.com/entities":         "sdk/typed, of what a typed object declares",
	"delete platform.zeroinfra.github.com/entities":         "sdk/typed, of what a typed object no longer declares",
	"delete platform.zeroinfra.github.com/components":       "controller/application, of a component that is no longer wanted",
	"delete platform.zeroinfra.github.com/workloadsets":     "controller/component, of a set that is no longer wanted",
	"delete /services":                            "controller/component, of a Service that is no longer wanted",
	"delete /pods":                                "controller/workloadset, of a pod to be replaced",
	"patch /persistentvolumeclaims":               "controller/workloadset, for a larger size",
	"delete /persistentvolumeclaims":              "controller/workloadset, under deletionPolicy Delete",
	"patch /pods/resize":                          "controller/workloadset, for other resources",
	"list /nodes":                                 "controller/workloadset, for a resize that no node may be able to take",
	"get /persistentvolumes":                      "controller/workloadset, for the same",
	"get policy/poddisruptionbudgets":             "controller/component, of a set with two pods or more",
	"create policy/poddisruptionbudgets":          "controller/component, the same",
	"patch policy/poddisruptionbudgets":           "controller/component, the same",
	"delete policy/poddisruptionbudgets":          "controller/component, when a set has one pod again",
	"get networking.k8s.io/networkpolicies":       "controller/component, of an Application that asks for one",
	"create networking.k8s.io/networkpolicies":    "controller/component, the same",
	"patch networking.k8s.io/networkpolicies":     "controller/component, the same",
	"delete networking.k8s.io/networkpolicies":    "controller/component, when it no longer asks",
	"get autoscaling/horizontalpodautoscalers":    "controller/component, of a component with autoscaling",
	"create autoscaling/horizontalpodautoscalers": "controller/component, the same",
	"patch autoscaling/horizontalpodautoscalers":  "controller/component, the same",
	"delete autoscaling/horizontalpodautoscalers": "controller/component, when it no longer asks",
	"get coordination.k8s.io/leases":              "controller/claim, to speak about what nobody claims",
	"create coordination.k8s.io/leases":           "controller/claim, the same",
	"update coordination.k8s.io/leases":           "controller/claim, the same",
	"list coordination.k8s.io/leases":             "sdk/operator, before it is uninstalled",
	"impersonate /serviceaccounts":                "controller/operation, to write objects as the account that an Operation names",
	"create events.k8s.io/events":                 "every controller",
	"patch events.k8s.io/events":                  "every controller, of an event that comes again",
}

// rightsFit returns an error when the engine was denied something in any test of this package, or
// when it has a right that nobody uses.
func rightsFit(env *testkit.Env) error {
	if account == nil {
		return nil // No test has run an engine.
	}
	found, err := env.Accesses(account.User)
	if err != nil {
		return err
	}
	used := map[string]bool{}
	problems := []error{env.Denied(account.User)}
	for access := range found {
		used[access.Verb+" "+access.Group+"/"+access.Resource] = true
	}
	if all, err := usedByAll(used); !all || err != nil {
		return errors.Join(append(problems, err)...) // Some tests only, who use some rights only.
	}
	rights, err := rightsOf(context.Background(), env.Client)
	if err != nil {
		return err
	}
	for _, right := range rights {
		if elsewhere[right] == "" && !isUsed(right, used) {
			problems = append(problems, fmt.Errorf("nobody uses the right to %s: take it out of config/rbac, or say in this test who does", right))
		}
	}
	for right, who := range elsewhere {
		if !slices.Contains(rights, right) {
			problems = append(problems, fmt.Errorf("%s needs the right to %s, which config/rbac does not give", who, right))
		}
	}
	return errors.Join(problems...)
}

// halves names a folder in which two processes that share the tests tell each other what they have used.
const halves = "TEST_HALVES"

// usedByAll says whether all tests have run, in this process or in the other half, whose rights are added then. Of two halves the one that ends last knows.
func usedByAll(used map[string]bool) (bool, error) {
	folder := os.Getenv(halves)
	if folder == "" {
		return flag.Lookup("test.run").Value.String()+flag.Lookup("test.skip").Value.String() == "", nil
	}
	own := strings.Join(slices.Sorted(maps.Keys(used)), "\n")
	if err := os.WriteFile(filepath.Join(folder, strconv.Itoa(os.Getpid())), []byte(own), 0o600); err != nil {
		return false, err
	}
	told, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil || len(told) < 2 {
		return false, err
	}
	for _, name := range told {
		text, err := os.ReadFile(name)
		if err != nil {
			return false, err
		}
		for right := range strings.SplitSeq(string(text), "\n") {
			used[right] = true
		}
	}
	return true, nil
}

// isUsed says whether a right was used, as far as requests can show.
func isUsed(right string, used map[string]bool) bool {
	verb, what, _ := strings.Cut(right, " ")
	switch {
	case used[right]:
		return true
	case verb == "list":
		// Newer servers send the first list through the watch; older ones do not.
		return used["watch "+what]
	case verb == "create":
		// An apply of what is absent is logged as a patch.
		return used["patch "+what]
	case verb == "get":
		// An Applier asks for what it runs into although its cache does not show it, which only happens in trouble.
		return used["patch "+what] || used["create "+what]
	}
	// It is asked for in the admission of what is owned.
	return verb == "update" && strings.HasSuffix(what, "/finalizers")
}

// rightsOf returns "verb group/resource" for every right of the engine outside of its own namespace.
func rightsOf(ctx context.Context, c client.Client) ([]string, error) {
	var list rbacv1.ClusterRoleList
	if err := c.List(ctx, &list); err != nil {
		return nil, err
	}
	var rights []string
	for _, role := range list.Items {
		if !strings.HasSuffix(role.Name, "-"+system) {
			continue
		}
		for _, rule := range role.Rules {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					rights = append(rights, verb+" "+rule.APIGroups[0]+"/"+resource)
				}
			}
		}
	}
	return rights, nil
}
