// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestOperatorUpgrade proves that another build of the operator, with another build of the agent, other values of the chart and another
// registry restarts nothing that runs: what is made from then on has them, and agents of the build before do what the new operator asks.
func TestOperatorUpgrade(t *testing.T) {
	if set.nextVersion == "" {
		t.Fatal("cannot upgrade: set E2E_NEXT_VERSION to the tag of a second build of the images agent and database-operator")
	}
	s := newSpace(t, "upgrade")
	s.restoreOperator()
	i := s.redis("db", safe())
	i.ready()
	i.must("SET", "kept", "yes")
	before, operator := i.snapshot(), s.mustLeader()
	images := imagesOf(i.pod())
	s.mustInstall(operatorName, "logFormat=console", "image.tag="+set.nextVersion, "agentImage.tag="+set.nextVersion, "imageRegistry=docker.io")
	pod := &corev1.Pod{}
	s.eventually(readyIn, "another pod of the operator leads", func() error {
		now, err := leader(s.ctx)
		if err == nil && now == operator {
			err = fmt.Errorf("it is still %q: the values did nothing", now)
		}
		if err != nil {
			return err
		}
		return world.client.Get(s.ctx, client.ObjectKey{Namespace: operatorNamespace, Name: now}, pod)
	})
	container := pod.Spec.Containers[0]
	if arguments := strings.Join(container.Args, " "); !strings.Contains(arguments, "--log-format=console") || !strings.HasSuffix(container.Image, ":"+set.nextVersion) {
		t.Errorf("the operator is image %q with arguments %q", container.Image, arguments)
	}
	s.throughout(quietFor, "the instance is left alone", func() error { return before.footprint.samePod(i.footprint()) })
	i.same(before)
	if now := imagesOf(i.pod()); now != images {
		t.Errorf("the images were %s and are %s", images, now)
	}

	// Images of the registry docker.io are those that the nodes have under no registry.
	other := s.redis("other")
	other.ready()
	if now := imagesOf(other.pod()); !strings.Contains(now, "zeroinfra/agent:"+set.nextVersion) || !strings.Contains(now, "docker.io/zeroinfra/redis:7.0") {
		t.Errorf("a new pod has the images %s", now)
	}
	i.managed("222")
	footprint := i.footprint()
	s.create(restartOf("restart", i.reference()))
	s.succeeded("restart")
	i.ready()
	if err := footprint.restartedInPlace(i.footprint()); err != nil {
		t.Error(err)
	}
	if now := imagesOf(i.pod()); now != images {
		t.Errorf("the images were %s and are %s", images, now)
	}
	if got := i.must("GET", "kept"); got != "yes" {
		t.Errorf("the key is %q, want yes", got)
	}
	// A pod that is made anew has what the operator now says.
	old := i.pod()
	i.delete(old)
	i.eventually(readyIn, "the pod is replaced", func() error { return i.replaced(old) })
	i.ready()
	if now := imagesOf(i.pod()); !strings.Contains(now, "zeroinfra/agent:"+set.nextVersion) || !strings.Contains(now, "docker.io/zeroinfra/redis:7.0") {
		t.Errorf("the new pod has the images %s", now)
	}
}

// imagesOf lists the images of a pod's containers in order.
func imagesOf(pod *corev1.Pod) string {
	var images []string
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, container := range list {
			images = append(images, container.Image)
		}
	}
	return strings.Join(images, " ")
}
