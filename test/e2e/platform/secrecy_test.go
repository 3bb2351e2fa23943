// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// TestPasswordsStaySecret looks for passwords everywhere but in Secrets: in every object of every kind, in every log,
// and on every command line, after all that could have spilled them has happened.
func TestPasswordsStaySecret(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "secrecy")
	const chosen = "Tell-nobody/9%x"
	s.CreateSecret("chosen", "password", chosen)
	generated, supplied := s.CreateRedis("generated"), s.CreateRedis("supplied", passwordFrom("chosen"))
	generated.WaitReady()
	supplied.WaitReady()
	passwords := map[string]string{"the generated password": generated.Account().Password,
		"the chosen password": supplied.Account().Password}
	if passwords["the chosen password"] != chosen {
		t.Fatal("the binding does not carry the chosen password")
	}
	for _, i := range []*framework.Instance{generated, supplied} {
		provoke(i)
	}
	places := texts(s)
	for _, i := range []*framework.Instance{generated, supplied} {
		addProcesses(i, places)
	}
	addOperator(s, places)
	t.Logf("looked at %d places", len(places))
	for place, text := range places {
		for name, password := range passwords {
			for _, form := range []string{password, url.QueryEscape(password), url.PathEscape(password),
				base64.StdEncoding.EncodeToString([]byte(password))} {
				if strings.Contains(text, form) {
					t.Errorf("%s is in %s", name, place)
				}
			}
		}
	}
	// The search has to be able to find something: the name of the instance is in most places.
	found := 0
	for _, text := range places {
		if strings.Contains(text, generated.Application()) {
			found++
		}
	}
	if found < 5 {
		t.Errorf("even the name of the instance is in %d places only: the search is broken", found)
	}
}

// provoke has happen what writes to logs, events and conditions.
func provoke(i *framework.Instance) {
	i.Helper()
	i.KillProcess(i.Info("process_id"))
	i.WaitReady()
	i.Update(parameter("maxclients", "500"))
	i.WaitReady()
	succeededRestart(i.Namespace, i)
	auth := i.Object().Spec.Auth
	i.Update(passwordFrom("absent"))
	i.ExpectStalled(framework.ExpectedStall{Reason: platformv1.ReasonSecretNotFound})
	i.Update(func(s *databasev1.RedisSpec) { s.Parameters, s.Auth = nil, auth })
	i.WaitReady()
}

// texts returns every object in the namespace of the test but Secrets, and the logs of all containers, by place.
func texts(s *framework.Namespace) map[string]string {
	s.Helper()
	objects, err := dynamic.NewForConfig(framework.Cluster.Config)
	if err != nil {
		s.Fatal(err)
	}
	places := map[string]string{}
	for _, list := range namespacedResources(s) {
		group, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			s.Fatal(err)
		}
		for _, resource := range list.APIResources {
			if resource.Name == "secrets" {
				continue
			}
			items := &unstructured.UnstructuredList{}
			s.Eventually(framework.EndpointTimeout, "there is a list of "+resource.Name, func() error {
				found, err := objects.Resource(group.WithResource(resource.Name)).Namespace(s.Name).List(s.Ctx,
					metav1.ListOptions{})
				if apierrors.IsMethodNotSupported(err) || apierrors.IsNotFound(err) {
					return nil
				}
				if err != nil {
					return err
				}
				items = found
				return nil
			})
			for _, item := range items.Items {
				data, err := json.Marshal(item.Object)
				if err != nil {
					s.Fatal(err)
				}
				// The encoder of JSON would hide some characters.
				places[resource.Name+"/"+item.GetName()] = string(data) + plainText(item.Object)
			}
		}
	}
	pods, err := framework.Cluster.Kube.CoreV1().Pods(s.Name).List(s.Ctx, metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	for _, pod := range pods.Items {
		for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
			text, err := framework.Logs(s.Ctx, s.Name, pod.Name, container.Name)
			if err != nil {
				s.Fatal(err)
			}
			places["log of "+pod.Name+"/"+container.Name] = text
		}
	}
	return places
}

// plainText joins all strings of an object as they are.
func plainText(value any) string {
	switch v := value.(type) {
	case string:
		return v + "\n"
	case map[string]any:
		text := ""
		for key, entry := range v {
			text += key + "\n" + plainText(entry)
		}
		return text
	case []any:
		text := ""
		for _, entry := range v {
			text += plainText(entry)
		}
		return text
	}
	return ""
}

// addProcesses adds the command lines of all processes of the pod, seen from each container.
func addProcesses(i *framework.Instance, places map[string]string) {
	i.Helper()
	for _, container := range i.Pod().Spec.Containers {
		out, err := framework.Run(i.Ctx, i.Namespace.Name, i.PodName(), container.Name, "", "sh", "-c",
			`for f in /proc/[0-9]*/cmdline; do tr '\0' ' ' < $f; echo; done 2>/dev/null; true`)
		if err != nil {
			i.Fatal(err)
		}
		if !strings.Contains(out, "agent") {
			i.Errorf("the command lines in container %q do not show the agent: %q", container.Name, out)
		}
		places["command lines in "+i.PodName()+"/"+container.Name] = out
	}
}

// addOperator adds what the operator says: its log, its ConfigMaps and the events in its namespace.
func addOperator(s *framework.Namespace, places map[string]string) {
	s.Helper()
	pods, err := framework.OperatorPods(s.Ctx)
	if err != nil {
		s.Fatal(err)
	}
	for _, pod := range pods {
		text, err := framework.Logs(s.Ctx, framework.OperatorNamespace, pod.Name, "")
		if err != nil {
			s.Fatal(err)
		}
		places["log of "+pod.Name] = text
	}
	events, err := framework.Cluster.Kube.CoreV1().Events(framework.OperatorNamespace).List(s.Ctx, metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	for _, event := range events.Items {
		places["event "+event.Name] = event.Message
	}
	var plugins platformv1.PluginList
	if err := framework.Cluster.Client.List(s.Ctx, &plugins, &client.ListOptions{}); err != nil {
		s.Fatal(err)
	}
	for _, plugin := range plugins.Items {
		places["plugin "+plugin.Name] = framework.Describe(plugin.Status.Conditions)
	}
}
