// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/test/e2e/framework"
)

// TestOperatorUpgrade proves that another build of the operator, with another build of the agent, other values of the
// chart and another registry restarts nothing that runs: what is made from then on has them, and agents of the build
// before do what the new operator asks.
func TestOperatorUpgrade(t *testing.T) {
	if framework.Config.NextVersion == "" {
		t.Fatal("cannot upgrade: set E2E_NEXT_VERSION to the tag of a second build of the images agent and database-operator")
	}
	s := framework.NewNamespace(t, "upgrade")
	s.RestoreOperatorAtEnd()
	i := s.CreateRedis("db", framework.WithFsyncAlways())
	i.WaitReady()
	i.MustDo("SET", "kept", "yes")
	before, operator := takeSnapshot(i), s.MustLeader()
	images := imagesOf(i.Pod())
	s.MustInstall(framework.OperatorName, "logFormat=console", "image.tag="+framework.Config.NextVersion,
		"agentImage.tag="+framework.Config.NextVersion, "imageRegistry=docker.io")
	pod := &corev1.Pod{}
	s.Eventually(framework.ReadyTimeout, "another pod of the operator leads", func() error {
		now, err := framework.Leader(s.Ctx)
		if err == nil && now == operator {
			err = fmt.Errorf("it is still %q: the values did nothing", now)
		}
		if err != nil {
			return err
		}
		return framework.Cluster.Client.Get(s.Ctx, client.ObjectKey{Namespace: framework.OperatorNamespace, Name: now}, pod)
	})
	container := pod.Spec.Containers[0]
	if arguments := strings.Join(container.Args, " "); !strings.Contains(arguments, "--log-format=console") ||
		!strings.HasSuffix(container.Image, ":"+framework.Config.NextVersion) {
		t.Errorf("the operator is image %q with arguments %q", container.Image, arguments)
	}
	s.Throughout(framework.QuietPeriod, "the instance is left alone",
		func() error { return before.footprint.SamePod(i.Footprint()) })
	same(i, before)
	if now := imagesOf(i.Pod()); now != images {
		t.Errorf("the images were %s and are %s", images, now)
	}

	// Images of the registry docker.io are those that the nodes have under no registry.
	other := s.CreateRedis("other")
	other.WaitReady()
	if now := imagesOf(other.Pod()); !strings.Contains(now, "zeroinfra/agent:"+framework.Config.NextVersion) ||
		!strings.Contains(now, "docker.io/zeroinfra/redis:7.0") {
		t.Errorf("a new pod has the images %s", now)
	}
	managed(i, "222")
	footprint := i.Footprint()
	s.Create(framework.NewRestartOperation("restart", i.Reference()))
	s.ExpectOperationSucceeded("restart")
	i.WaitReady()
	if err := footprint.RestartedInPlace(i.Footprint()); err != nil {
		t.Error(err)
	}
	if now := imagesOf(i.Pod()); now != images {
		t.Errorf("the images were %s and are %s", images, now)
	}
	if got := i.MustDo("GET", "kept"); got != "yes" {
		t.Errorf("the key is %q, want yes", got)
	}
	// A pod that is made anew has what the operator now says.
	old := i.Pod()
	i.Delete(old)
	i.Eventually(framework.ReadyTimeout, "the pod is replaced", func() error { return i.PodReplaced(old) })
	i.WaitReady()
	if now := imagesOf(i.Pod()); !strings.Contains(now, "zeroinfra/agent:"+framework.Config.NextVersion) ||
		!strings.Contains(now, "docker.io/zeroinfra/redis:7.0") {
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
