// SPDX-License-Identifier: Apache-2.0

//go:build charts

package charts

import (
	"slices"
	"strings"
	"testing"

	"github.com/zeroinfra/hack/generate/internal/repo"
)

// webhooks returns those of the one configuration of a chart, by name.
func webhooks(t *testing.T, objects map[string][]map[string]any) map[string]map[string]any {
	t.Helper()
	configurations := objects["ValidatingWebhookConfiguration"]
	if len(configurations) != 1 {
		t.Fatalf("there are %d configurations", len(configurations))
	}
	found := map[string]map[string]any{}
	for _, webhook := range configurations[0]["webhooks"].([]any) {
		found[webhook.(map[string]any)["name"].(string)] = webhook.(map[string]any)
	}
	return found
}

// Each operator is asked about the objects of its domain, of what is nobody's yet, and of its own kinds.
func TestWebhooks(t *testing.T) {
	for _, operator := range repo.Operators {
		objects := render(t, operator.Name(), "--namespace", "system", "--set",
			"webhooks.failurePolicy=Fail,webhooks.timeoutSeconds=7")
		found := webhooks(t, objects)
		wanted := map[string]string{"applications": "Fail", "unclaimed": "Ignore", "operations": "Fail"}
		if operator.Name() == "batch-operator" {
			wanted["unclaimed-operations"] = "Fail"
		}
		if slices.Contains([]string{"batch-operator", "database-operator", "message-operator", "model-operator",
			"storage-operator"}, operator.Name()) {
			wanted["kinds"] = "Fail"
		}
		if len(found) != len(wanted) {
			t.Errorf("%s has %d webhooks, want %d", operator.Name(), len(found), len(wanted))
		}
		for name, policy := range wanted {
			webhook := found[name+"."+operator.Domain+".zeroinfra.github.com"]
			if webhook == nil || webhook["failurePolicy"] != policy || webhook["timeoutSeconds"] != 7.0 ||
				webhook["namespaceSelector"] != nil {
				t.Errorf("%s: webhook %s is %v", operator.Name(), name, webhook)
				continue
			}
			for _, want := range []string{"oldObject.spec", "deletionTimestamp", "system:serviceaccount:system:release-" +
				operator.Name() + "'", "name: release-" + operator.Name() + "-webhook\n"} {
				if !strings.Contains(text(t, webhook), want) {
					t.Errorf("webhook %s says nothing of %q:\n%s", name, want, text(t, webhook))
				}
			}
		}
		for _, name := range []string{"applications", "operations"} {
			selector := found[name+"."+operator.Domain+".zeroinfra.github.com"]["objectSelector"]
			if label := text(t, selector); !strings.Contains(label, "domain: "+operator.Domain+"\n") {
				t.Errorf("%s: webhook %s selects %s", operator.Name(), name, label)
			}
		}
		deployment, flag := text(t, objects["Deployment"][0]), "--webhook-configuration=release-"+operator.Name()+".system\n"
		if !strings.Contains(deployment, flag) || !strings.Contains(deployment, "containerPort: 9443") {
			t.Errorf("%s does not serve webhooks:\n%s", operator.Name(), deployment)
		}
	}
}

// Only new Operations with a template of their own are asked about: nothing holds up that one is cancelled or approved.
func TestWebhooksOfOperations(t *testing.T) {
	found := webhooks(t, render(t, "batch-operator"))
	for _, name := range []string{"operations", "unclaimed-operations"} {
		webhook := found[name+".batch.zeroinfra.github.com"]
		rules := text(t, webhook["rules"])
		if !strings.Contains(rules, "operations:\n  - CREATE\n") || strings.Contains(rules, "UPDATE") {
			t.Errorf("webhook %s has the rules\n%s", name, rules)
		}
		conditions := webhook["matchConditions"].([]any)
		if last := text(t, conditions[len(conditions)-1]); len(conditions) != 4 ||
			!strings.Contains(last, "has(object.spec.template)") {
			t.Errorf("webhook %s has the conditions\n%s", name, text(t, conditions))
		}
	}
}

func TestWebhooksOfNamespaces(t *testing.T) {
	for name, webhook := range webhooks(t, render(t, "database-operator", "--set", "watchNamespaces={a,b,a}")) {
		selector := text(t, webhook["namespaceSelector"])
		if !strings.Contains(selector, "key: kubernetes.io/metadata.name") || !strings.Contains(selector, "- a\n  - b\n") {
			t.Errorf("%s is called for namespaces of\n%s", name, selector)
		}
	}
}

func TestNoWebhooks(t *testing.T) {
	objects := render(t, "database-operator", "--set", "webhooks.enabled=false")
	if len(objects["ValidatingWebhookConfiguration"]) > 0 ||
		strings.Contains(text(t, objects["Deployment"][0]), "webhook") {
		t.Error("there is a webhook, unasked")
	}
	for kind, all := range objects {
		if slices.ContainsFunc(namesOf(all), func(n string) bool { return strings.Contains(n, "-webhook") }) {
			t.Errorf("%ss are %q", kind, namesOf(all))
		}
	}
	for _, bad := range []string{"webhooks.failurePolicy=Maybe", "webhooks.timeoutSeconds=0", "webhooks.timeout=1"} {
		if out, err := helm(t, "template", "release", "database-operator", "--set", bad); err == nil ||
			!strings.Contains(out, "/webhooks") {
			t.Errorf("%s: got %v\n%s", bad, err, out)
		}
	}
}

// The right to the configuration and to the Secret is to these two objects.
func TestRightsOfTheWebhook(t *testing.T) {
	objects := render(t, "database-operator", "--namespace", "system")
	var rules string
	for _, role := range append(objects["ClusterRole"], objects["Role"]...) {
		if strings.Contains(name(role), "-webhook") {
			rules += text(t, role["rules"])
		}
	}
	if got := strings.Count(rules, "resourceNames:"); got != 2 {
		t.Errorf("%d rules are for one object, want 2:\n%s", got, rules)
	}
	policy := render(t, "database-operator", "--values", "database-operator/values-production.yaml")["NetworkPolicy"][0]
	if !strings.Contains(text(t, policy), "port: webhook") {
		t.Errorf("the API server is kept out:\n%s", text(t, policy))
	}
}
