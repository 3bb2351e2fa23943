// SPDX-License-Identifier: Apache-2.0

//go:build charts

package charts

import (
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/zeroinfra/hack/generate/internal/repo"
)

func text(t *testing.T, object any) string {
	t.Helper()
	out, err := yaml.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// name returns the namespace and name of an object.
func name(object map[string]any) string {
	metadata := object["metadata"].(map[string]any)
	namespace, _ := metadata["namespace"].(string)
	return namespace + "/" + metadata["name"].(string)
}

func namesOf(objects []map[string]any) []string {
	var found []string
	for _, object := range objects {
		found = append(found, name(object))
	}
	slices.Sort(found)
	return found
}

// Limited to namespaces, the operator's account has rights in these and in its own, and of the
// cluster it may read what cluster_role.yaml lists.
func TestWatchNamespaces(t *testing.T) {
	objects := render(t, "database-operator", "--namespace", "system", "--set",
		"watchNamespaces={a,b,a},installCRDs=false,userRoles.create=false")
	wanted := []string{
		"a/release-database-operator-engine", "b/release-database-operator-engine",
		"system/release-database-operator-leader-election", "system/release-database-operator-own",
		"system/release-database-operator-uninstall",
		"system/release-database-operator-webhook",
	}
	if got := namesOf(objects["Role"]); !slices.Equal(got, wanted) {
		t.Errorf("Roles are %q, want %q", got, wanted)
	}
	if got := namesOf(objects["RoleBinding"]); !slices.Equal(got, wanted) {
		t.Errorf("RoleBindings are %q, want %q", got, wanted)
	}
	for _, kind := range []string{"ClusterRole", "ClusterRoleBinding"} {
		wanted := []string{"/release-database-operator-cluster.system", "/release-database-operator-webhook.system"}
		if got := namesOf(objects[kind]); !slices.Equal(got, wanted) {
			t.Errorf("%ss are %q", kind, got)
		}
	}
	for _, resource := range []string{"pods", "secrets", "configmaps", "applications", "redis", "services"} {
		if strings.Contains(text(t, objects["ClusterRole"]), "- "+resource+"\n") {
			t.Errorf("%s are granted in the whole cluster", resource)
		}
	}
	for _, role := range objects["Role"][:2] {
		if rules := text(t, role["rules"]); !strings.Contains(rules, "- redis\n") || !strings.Contains(rules, "- pods\n") {
			t.Errorf("%s misses kinds or pods:\n%s", name(role), rules)
		}
	}
	for kind, object := range map[string]any{"Deployment": objects["Deployment"][0], "Job": objects["Job"][0]} {
		if !strings.Contains(text(t, object), "--watch-namespaces=a,b\n") {
			t.Errorf("the %s is not told of the namespaces", kind)
		}
	}
	if out, err := helm(t, "template", "release", "database-operator", "--set", "watchNamespaces={A}"); err == nil {
		t.Errorf("a name that no namespace can have was taken:\n%s", out)
	}
}

// Of two releases of a chart, under one name in two namespaces, none takes an object of the other: with watchNamespaces
// they share nothing in the cluster.
func TestReleasesShareNoNames(t *testing.T) {
	for _, operator := range repo.Operators {
		seen := map[string]string{}
		for _, namespace := range []string{"one", "two"} {
			served := "watchNamespaces={shop-" + namespace + "}"
			objects := render(t, operator.Name(), "--namespace", namespace, "--set", served)
			if len(objects["ClusterRole"]) == 0 || len(objects["ValidatingAdmissionPolicy"]) == 0 {
				t.Fatalf("%s has no objects of the cluster", operator.Name())
			}
			for kind, all := range objects {
				for _, found := range namesOf(all) {
					if other := seen[kind+" "+found]; other != "" {
						t.Errorf("%s: %s %s is of the releases in %s and %s", operator.Name(), kind, found, other, namespace)
					}
					seen[kind+" "+found] = namespace
				}
			}
		}
	}
}

// A binding, a policy and a webhook lead to the objects of their own release.
func TestReferencesAcrossTheCluster(t *testing.T) {
	objects := render(t, "database-operator", "--namespace", "system")
	for kind, target := range map[string]string{
		"ClusterRoleBinding":               "ClusterRole",
		"ValidatingAdmissionPolicyBinding": "ValidatingAdmissionPolicy",
	} {
		for _, binding := range objects[kind] {
			var to any
			if ref, ok := binding["roleRef"].(map[string]any); ok {
				to = ref["name"]
			} else {
				to = binding["spec"].(map[string]any)["policyName"]
			}
			if !slices.Contains(namesOf(objects[target]), "/"+to.(string)) {
				t.Errorf("%s %s leads to %v, and there are %q", kind, name(binding), to, namesOf(objects[target]))
			}
		}
	}
	got := namesOf(objects["ValidatingWebhookConfiguration"])
	if !slices.Equal(got, []string{"/release-database-operator.system"}) {
		t.Errorf("the configurations are %q", got)
	}
}

// What can change at run time is in the ConfigMap, and a change of it leaves the pods alone.
func TestSettingsReplaceNoPod(t *testing.T) {
	before := render(t, "database-operator")
	after := render(t, "database-operator", "--set",
		"workers=3,kubeApi.qps=5,logLevel=debug,imageRegistry=r.example,clusterDomain=corp.example,uninstall.force=true",
		"--set", "kubeApi.burst=1000000,operationHistory.limit=0")
	if text(t, before["Deployment"]) != text(t, after["Deployment"]) {
		t.Error("the Deployment is another")
	}
	wanted := map[string]any{
		"workers": "3", "kubeApi.qps": "5", "kubeApi.burst": "1000000", "logLevel": "debug",
		"imageRegistry": "r.example", "clusterDomain": "corp.example", "entityInterval": "5m", "operationHistory.ttl": "",
		"operationHistory.limit": "0", "uninstall.force": "true",
		"gitOpsManagers": "argocd-controller,kustomize-controller,helm-controller",
	}
	for _, object := range after["ConfigMap"] {
		if name(object) == "default/release-database-operator-settings" {
			if got := text(t, object["data"]); got != text(t, wanted) {
				t.Errorf("the settings are\n%s, want\n%s", got, text(t, wanted))
			}
			return
		}
	}
	t.Errorf("there are no settings among %q", namesOf(after["ConfigMap"]))
}

func TestUserRoles(t *testing.T) {
	roles := map[string]string{}
	for _, role := range render(t, "database-operator")["ClusterRole"] {
		if found := name(role); strings.HasPrefix(found, "/zeroinfra-") {
			roles[found] = text(t, role)
		}
	}
	for found, label := range map[string]string{"viewer": "view", "editor": "edit", "admin": "admin"} {
		role := roles["/zeroinfra-database-"+found]
		for _, want := range []string{"aggregate-to-" + label + ": \"true\"", "- redis\n", "- applications\n", "- entities\n",
			"- operations\n"} {
			if !strings.Contains(role, want) {
				t.Errorf("%s misses %q:\n%s", found, want, role)
			}
		}
		if strings.Contains(role, "secrets") || strings.Contains(role, "*") {
			t.Errorf("%s gives more than it should:\n%s", found, role)
		}
	}
	approver := roles["/zeroinfra-database-approver"]
	if !strings.Contains(approver, "- approve\n") || strings.Contains(approver, "aggregate-to-") {
		t.Errorf("nobody can approve, or everybody:\n%s", approver)
	}
	if len(roles) != 4 {
		t.Errorf("there are %d", len(roles))
	}
	if got := namesOf(render(t, "storage-operator", "--set",
		"userRoles.create=false")["ClusterRole"]); slices.ContainsFunc(got,
		func(n string) bool { return strings.Contains(n, "zeroinfra-") }) {
		t.Errorf("they are there, unasked: %q", got)
	}
}

func TestMonitors(t *testing.T) {
	objects := render(t, "database-operator", "--api-versions", "monitoring.coreos.com/v1", "--set",
		"podMonitor.enabled=true,podMonitor.labels.team=a,podMonitor.interval=10s,serviceMonitor.enabled=true")
	if len(objects["ServiceMonitor"]) != 1 || len(objects["PodMonitor"]) != 1 {
		t.Fatalf("there are %d ServiceMonitors and %d PodMonitors", len(objects["ServiceMonitor"]),
			len(objects["PodMonitor"]))
	}
	monitor := text(t, objects["PodMonitor"][0])
	for _, want := range []string{"team: a", "interval: 10s", "port: metrics", "app.kubernetes.io/instance: release"} {
		if !strings.Contains(monitor, want) {
			t.Errorf("the PodMonitor misses %q:\n%s", want, monitor)
		}
	}
	if !strings.Contains(text(t, objects["Deployment"]), "name: metrics") {
		t.Error("no pod has the port that is scraped")
	}
}

// The hook has rights of its own kind on the one Deployment, and is told where the settings are.
func TestUninstallHook(t *testing.T) {
	objects := render(t, "database-operator")
	if len(objects["Job"]) != 1 || !strings.Contains(text(t, objects["Job"][0]), "helm.sh/hook: pre-delete") {
		t.Fatalf("there is no hook: %q", namesOf(objects["Job"]))
	}
	job := text(t, objects["Job"][0])
	for _, want := range []string{
		"- prepare-uninstall\n", "--deployment=release-database-operator\n",
		"--settings-configmap=release-database-operator-settings\n", "--release=release\n", "--revision=1\n",
	} {
		if !strings.Contains(job, want) {
			t.Errorf("the hook misses %q:\n%s", want, job)
		}
	}
	for _, role := range objects["Role"] {
		if strings.HasSuffix(name(role), "-uninstall") {
			if rules := text(t, role["rules"]); !strings.Contains(rules, "resourceNames:\n  - release-database-operator\n") ||
				!strings.Contains(rules, "deployments/scale") {
				t.Errorf("its rights are\n%s", rules)
			}
			return
		}
	}
	t.Errorf("it has no right to stop the operator: %q", namesOf(objects["Role"]))
}
