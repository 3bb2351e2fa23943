// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/inplaceupdate"
	"github.com/zeroinfra/platform-core/internal/plugin/podtemplate"
	"github.com/zeroinfra/platform-core/internal/podstart"
)

func named(containers []corev1.Container, name string) *corev1.Container {
	i := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return &containers[i]
}

// AgentImage is the image that the agent of a pod comes from; empty where none brings one.
func AgentImage(pod *corev1.Pod) string {
	if init := named(pod.Spec.InitContainers, podtemplate.InitContainer); init != nil {
		return init.Image
	}
	return ""
}

// imageChanges returns the containers of the live pod that are to have another image, with that image. The same image
// in another registry is none, as long as the container has an image at all: nothing that runs is restarted for where
// it came from.
func imageChanges(live, want *corev1.Pod) map[string]string {
	changes := map[string]string{}
	wanted := inplaceupdate.Running(&want.Spec)
	had, has := pluginImages(live), pluginImages(want)
	for _, container := range inplaceupdate.Running(&live.Spec) {
		c := named(wanted, container.Name)
		if c == nil || c.Image == container.Image {
			continue
		}
		if name := had[c.Name]; name == "" || name != has[c.Name] || lacksImage(live, c.Name) {
			changes[c.Name] = c.Image
		}
	}
	return changes
}

// pluginImages reads what the plugin calls the images of a pod's containers.
func pluginImages(pod *corev1.Pod) map[string]string {
	images := map[string]string{}
	// What cannot be read counts as none: then the full names are compared.
	_ = json.Unmarshal([]byte(pod.Annotations[platformv1.PluginImagesAnnotation]), &images)
	return images
}

// lacksImage says whether a container does not start since its node cannot get its image.
func lacksImage(pod *corev1.Pod, container string) bool {
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if status.Name == container && status.State.Waiting != nil {
			return podstart.LacksImage(&status)
		}
	}
	return false
}

// imagePatch gives the containers their images, and those init containers of the plugin's that run again
// when the pod's sandbox is made anew.
func imagePatch(live, want *corev1.Pod) ([]byte, error) {
	type image struct {
		Name  string `json:"name"`
		Image string `json:"image"`
	}
	before, changes := inplaceupdate.ImagesBefore(live), imageChanges(live, want)
	for name := range changes {
		if id := inplaceupdate.ContainerID(live, name); before[name].ID != id || id == "" {
			before[name] = inplaceupdate.RanBefore{ID: id, Image: named(inplaceupdate.Running(&live.Spec), name).Image}
		}
	}
	images := []image{}
	for _, container := range live.Spec.Containers {
		if to, found := changes[container.Name]; found {
			images = append(images, image{container.Name, to})
		}
	}
	inits := []image{}
	for _, container := range live.Spec.InitContainers {
		c := named(want.Spec.InitContainers, container.Name)
		_, changed := changes[container.Name]
		ends := container.RestartPolicy == nil
		if changed || c != nil && ends && c.Image != container.Image && c.Name != podtemplate.InitContainer {
			inits = append(inits, image{c.Name, c.Image})
		}
	}
	record, err := json.Marshal(before)
	if err != nil {
		return nil, err
	}
	annotations := map[string]string{platformv1.ImagesAnnotation: string(record)}
	if names, found := want.Annotations[platformv1.PluginImagesAnnotation]; found {
		annotations[platformv1.PluginImagesAnnotation] = names
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": live.UID, "annotations": annotations},
		"spec":     map[string]any{"containers": images, "initContainers": inits},
	})
}

// given are the resources of a container by "requests.cpu" and the like, with the requests
// that the API server derives from limits.
func given(container *corev1.Container) map[string]resource.Quantity {
	all := map[string]resource.Quantity{}
	for name, quantity := range container.Resources.Limits {
		all["limits."+string(name)] = quantity
		all["requests."+string(name)] = quantity
	}
	for name, quantity := range container.Resources.Requests {
		all["requests."+string(name)] = quantity
	}
	return all
}

// resized returns the containers whose resources are the plugin's and the user's. What the engine's own
// agents need comes with the next pod.
func resized(spec *corev1.PodSpec) []corev1.Container {
	agents := []string{podtemplate.StatusContainer, podtemplate.OpsContainer, podtemplate.MetricsContainer}
	return slices.DeleteFunc(inplaceupdate.Running(spec),
		func(c corev1.Container) bool { return slices.Contains(agents, c.Name) })
}

// resourceNames is the value of the annotation that tells our resources from those that a LimitRange or a webhook
// added.
func resourceNames(pod *corev1.Pod) string {
	names := map[string][]string{}
	for _, container := range resized(&pod.Spec) {
		if all := given(&container); len(all) > 0 {
			names[container.Name] = slices.Sorted(maps.Keys(all))
		}
	}
	data, err := json.Marshal(names)
	if err != nil {
		panic(err) // a map of texts
	}
	return string(data)
}

// resourceChanges returns, by container, what is to become of the resources that differ; nil removes one.
func resourceChanges(live, want *corev1.Pod) map[string]map[string]*resource.Quantity {
	ours := map[string][]string{}
	_ = json.Unmarshal([]byte(live.Annotations[platformv1.ResourcesAnnotation]), &ours)
	changes := map[string]map[string]*resource.Quantity{}
	set := func(container, name string, value *resource.Quantity) {
		if changes[container] == nil {
			changes[container] = map[string]*resource.Quantity{}
		}
		changes[container][name] = value
	}
	wanted := resized(&want.Spec)
	for _, container := range resized(&live.Spec) {
		c := named(wanted, container.Name)
		if c == nil {
			continue
		}
		have, should := given(&container), given(c)
		for name, value := range should {
			if present, found := have[name]; !found || present.Cmp(value) != 0 {
				set(container.Name, name, new(value))
			}
		}
		for _, name := range ours[container.Name] {
			_, wanted := should[name]
			if _, found := have[name]; found && !wanted {
				set(container.Name, name, nil)
			}
		}
	}
	return changes
}

// fixed returns the first of the resources that are to change and that no server changes while a pod runs; empty when
// there is none.
func fixed(changes map[string]map[string]*resource.Quantity) string {
	for _, container := range slices.Sorted(maps.Keys(changes)) {
		for _, change := range slices.Sorted(maps.Keys(changes[container])) {
			_, name, _ := strings.Cut(change, ".")
			if name != string(corev1.ResourceCPU) && name != string(corev1.ResourceMemory) {
				return name
			}
		}
	}
	return ""
}

// tightens says whether a container that is to be resized gets less memory than it has.
func tightens(live, want *corev1.Pod) bool {
	for container, changes := range resourceChanges(live, want) {
		limit := changes["limits."+string(corev1.ResourceMemory)]
		if limit == nil {
			continue
		}
		have, limited := named(inplaceupdate.Running(&live.Spec), container).Resources.Limits[corev1.ResourceMemory]
		if !limited || have.Cmp(*limit) > 0 {
			return true
		}
	}
	return false
}

// resizePatch is for the subresource resize. A null removes a resource, where the server allows that.
func resizePatch(live, want *corev1.Pod) ([]byte, error) {
	type container struct {
		Name      string                                   `json:"name"`
		Resources map[string]map[string]*resource.Quantity `json:"resources"`
	}
	lists := map[string][]container{}
	for field, containers := range map[string][]corev1.Container{"containers": live.Spec.Containers,
		"initContainers": live.Spec.InitContainers} {
		for _, c := range containers {
			changes := resourceChanges(live, want)[c.Name]
			if len(changes) == 0 {
				continue
			}
			resources := map[string]map[string]*resource.Quantity{}
			for name, value := range changes {
				kind, which, _ := strings.Cut(name, ".")
				if resources[kind] == nil {
					resources[kind] = map[string]*resource.Quantity{}
				}
				resources[kind][which] = value
			}
			lists[field] = append(lists[field], container{c.Name, resources})
		}
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{"uid": live.UID}, "spec": lists})
}
