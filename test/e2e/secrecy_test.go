// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
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
)

// TestPasswordsStaySecret looks for passwords everywhere but in Secrets: in every object of every kind, in every log, and on
// every command line, after all that could have spilled them has happened.
func TestPasswordsStaySecret(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "secrecy")
	const chosen = "Tell-nobody/9%x"
	s.secret("chosen", "password", chosen)
	generated, supplied := s.redis("generated"), s.redis("supplied", passwordFrom("chosen"))
	generated.ready()
	supplied.ready()
	passwords := map[string]string{"the generated password": generated.account().password, "the chosen password": supplied.account().password}
	if passwords["the chosen password"] != chosen {
		t.Fatal("the binding does not carry the chosen password")
	}
	for _, i := range []*instance{generated, supplied} {
		i.provoke()
	}
	places := s.texts()
	for _, i := range []*instance{generated, supplied} {
		i.addProcesses(places)
	}
	s.addOperator(places)
	t.Logf("looked at %d places", len(places))
	for place, text := range places {
		for name, password := range passwords {
			for _, form := range []string{password, url.QueryEscape(password), url.PathEscape(password), base64.StdEncoding.EncodeToString([]byte(password))} {
				if strings.Contains(text, form) {
					t.Errorf("%s is in %s", name, place)
				}
			}
		}
	}
	// The search has to be able to find something: the name of the instance is in most places.
	found := 0
	for _, text := range places {
		if strings.Contains(text, generated.application()) {
			found++
		}
	}
	if found < 5 {
		t.Errorf("even the name of the instance is in %d places only: the search is broken", found)
	}
}

// provoke has happen what writes to logs, events and conditions.
func (i *instance) provoke() {
	i.Helper()
	i.kill9(i.info("process_id"))
	i.ready()
	i.update(parameter("maxclients", "500"))
	i.ready()
	i.succeededRestart(i)
	auth := i.object().Spec.Auth
	i.update(passwordFrom("absent"))
	i.stalled(stall{reason: platformv1.ReasonSecretNotFound})
	i.update(func(s *databasev1.RedisSpec) { s.Parameters, s.Auth = nil, auth })
	i.ready()
}

// texts returns every object in the namespace of the test but Secrets, and the logs of all containers, by place.
func (s *space) texts() map[string]string {
	s.Helper()
	objects, err := dynamic.NewForConfig(world.config)
	if err != nil {
		s.Fatal(err)
	}
	places := map[string]string{}
	for _, list := range s.namespacedResources() {
		group, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			s.Fatal(err)
		}
		for _, resource := range list.APIResources {
			if resource.Name == "secrets" {
				continue
			}
			items := &unstructured.UnstructuredList{}
			s.eventually(spreadIn, "there is a list of "+resource.Name, func() error {
				found, err := objects.Resource(group.WithResource(resource.Name)).Namespace(s.name).List(s.ctx, metav1.ListOptions{})
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
	pods, err := world.kube.CoreV1().Pods(s.name).List(s.ctx, metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	for _, pod := range pods.Items {
		for _, container := range append(append(pod.Spec.InitContainers[:0:0], pod.Spec.InitContainers...), pod.Spec.Containers...) {
			text, err := logs(s.ctx, s.name, pod.Name, container.Name)
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
func (i *instance) addProcesses(places map[string]string) {
	i.Helper()
	for _, container := range i.pod().Spec.Containers {
		out, err := run(i.ctx, i.space.name, i.podName(), container.Name, "", "sh", "-c", `for f in /proc/[0-9]*/cmdline; do tr '\0' ' ' < $f; echo; done 2>/dev/null; true`)
		if err != nil {
			i.Fatal(err)
		}
		if !strings.Contains(out, "agent") {
			i.Errorf("the command lines in container %q do not show the agent: %q", container.Name, out)
		}
		places["command lines in "+i.podName()+"/"+container.Name] = out
	}
}

// addOperator adds what the operator says: its log, its ConfigMaps and the events in its namespace.
func (s *space) addOperator(places map[string]string) {
	s.Helper()
	pods, err := operatorPods(s.ctx)
	if err != nil {
		s.Fatal(err)
	}
	for _, pod := range pods {
		text, err := logs(s.ctx, operatorNamespace, pod.Name, "")
		if err != nil {
			s.Fatal(err)
		}
		places["log of "+pod.Name] = text
	}
	events, err := world.kube.CoreV1().Events(operatorNamespace).List(s.ctx, metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	for _, event := range events.Items {
		places["event "+event.Name] = event.Message
	}
	var plugins platformv1.PluginList
	if err := world.client.List(s.ctx, &plugins, &client.ListOptions{}); err != nil {
		s.Fatal(err)
	}
	for _, plugin := range plugins.Items {
		places["plugin "+plugin.Name] = describe(plugin.Status.Conditions)
	}
}
