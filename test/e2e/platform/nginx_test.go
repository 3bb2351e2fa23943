// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

const nginxComponent = "nginx"

func nginxApplication() platformv1.ApplicationSpec {
	return platformv1.ApplicationSpec{
		Plugin: "nginx", PluginVersion: "1.0.0", Version: "1.26", Topology: "web",
		Components: []platformv1.ApplicationComponent{{
			Name: nginxComponent,
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20m"),
					corev1.ResourceMemory: resource.MustParse("16Mi")},
				Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")},
			},
		}},
	}
}

// nginx is a web server of a test.
type nginx struct{ *framework.Application }

func (n *nginx) in(t *testing.T) *nginx {
	return &nginx{&framework.Application{Namespace: n.Namespace.In(t), Name: n.Name}}
}

// exec runs a command in the container of a pod that nginx runs in.
func (n *nginx) exec(pod string, command ...string) (string, error) {
	return framework.Run(n.Ctx, n.Namespace.Name, pod, nginxComponent, "", command...)
}

// processes returns the numbers of the master and of the workers that take requests.
func (n *nginx) processes(pod string) (master string, workers []string, err error) {
	out, err := n.exec(pod, "ps", "-o", "pid,args")
	if err != nil {
		return "", nil, err
	}
	for line := range strings.Lines(out) {
		number, what, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case strings.Contains(what, "nginx: master process"):
			master = number
		case strings.HasSuffix(strings.TrimSpace(what), "nginx: worker process"):
			workers = append(workers, number)
		}
	}
	return master, workers, nil
}

// masters returns the number of the master in each pod.
func (n *nginx) masters() map[string]string {
	n.Helper()
	masters := map[string]string{}
	for _, pod := range n.Pods() {
		master, _, err := n.processes(pod.Name)
		if err != nil || master == "" {
			n.Fatalf("pod %q has no master process: %v", pod.Name, err)
		}
		masters[pod.Name] = master
	}
	return masters
}

// requestScript asks the Service without pause and prints how each request went.
const requestScript = `while [ ! -e "$1" ]; do
  if wget -q -T 30 -O /dev/null "$2"; then echo ok; else echo failed; fi
done
true`

// nginxClient asks the Service without pause.
type nginxClient struct {
	*nginx
	pod, stopFile string
	log           lineLog
	done          chan error
}

// startClient begins to ask from the container of a pod, and returns once a request was answered.
func (n *nginx) startClient(pod string) *nginxClient {
	n.Helper()
	c := &nginxClient{nginx: n, pod: pod, stopFile: "/tmp/stop-" + n.Name, done: make(chan error, 1)}
	if _, err := n.exec(pod, "rm", "-f", c.stopFile); err != nil {
		n.Fatal(err)
	}
	// By the address: what a name server fails to answer is no request that nginx failed.
	service := &corev1.Service{}
	n.MustGet(n.Name, service)
	go func() {
		c.done <- framework.Exec(context.WithoutCancel(n.Ctx), n.Namespace.Name, pod, nginxComponent,
			[]string{"sh", "-c", requestScript, "client", c.stopFile, "http://" + service.Spec.ClusterIP + ":8080/"}, nil,
			&c.log, &lineLog{})
	}()
	c.answered()
	return c
}

// answered waits until a request is answered after now.
func (c *nginxClient) answered() {
	c.Helper()
	before := c.log.count()
	c.Eventually(framework.SettleTimeout, "a request is answered", func() error {
		if lines, _ := c.log.all(); !slices.Contains(lines[before:], "ok") {
			return errors.New("none was")
		}
		return nil
	})
}

// stop ends the client; the test fails when a request failed.
func (c *nginxClient) stop() {
	c.Helper()
	if _, err := c.exec(c.pod, "touch", c.stopFile); err != nil {
		c.Fatal(err)
	}
	if err := <-c.done; err != nil {
		c.Fatalf("the client failed: %v", err)
	}
	lines, _ := c.log.all()
	failed := 0
	for _, line := range lines {
		if line != "ok" {
			failed++
		}
	}
	c.Logf("%d requests, %d failed", len(lines), failed)
	if failed > 0 {
		c.Errorf("%d of %d requests failed", failed, len(lines))
	}
}

// TestNginx proves with a plugin of another operator, which has no roles, that dynamic parameters take effect
// without a failed request. Both operators share a namespace.
func TestNginx(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "nginx")
	s.EnsureCommonOperator()
	n := &nginx{s.CreateApplication("site", nginxApplication())}
	t.Logf("apply to Ready of two pods: %s", framework.FormatSeconds(n.WaitReady()))
	t.Run("the Plugin object counts it", func(t *testing.T) { n.in(t).checkCounted() })
	t.Run("a dynamic parameter fails no request", func(t *testing.T) { n.in(t).checkReload() })
	t.Run("what nginx refuses changes nothing", func(t *testing.T) { n.in(t).checkRefusedReload() })
}

// checkCounted compares with what is there: other tests make Applications of this plugin, too.
func (n *nginx) checkCounted() {
	// A Plugin is in no namespace.
	everywhere := &framework.Namespace{T: n.T, Ctx: n.Ctx, Failures: n.Failures}
	n.Eventually(framework.SettleTimeout, "kubectl get plugins shows how many instances there are", func() error {
		var all platformv1.ApplicationList
		if err := framework.Cluster.Client.List(n.Ctx, &all); err != nil {
			return err
		}
		instances := 0
		for _, app := range all.Items {
			if app.Spec.Plugin == "nginx" {
				instances++
			}
		}
		if shown := everywhere.TableColumns(platformv1.GroupVersion.WithResource("plugins"),
			"nginx-1.0.0"); shown["Instances"] != fmt.Sprint(instances) || len(shown["Digest"]) != 12 ||
			shown["Accepted"] != "True" {
			return fmt.Errorf("there are %d and it shows %v", instances, shown)
		}
		return nil
	})
}

func (n *nginx) checkReload() {
	uids, masters := n.UIDs(), n.masters()
	first := n.Pods()[0].Name
	c := n.startClient(first)
	n.Update(framework.WithComponent(nginxComponent, func(c *platformv1.ApplicationComponent) {
		c.Parameters = platformv1.Parameters{"worker_processes": "3", "keepalive_timeout": "30s"}
	}))
	took := n.WaitReady()
	n.Logf("change to Ready: %s", framework.FormatSeconds(took))
	for pod := range uids {
		n.Eventually(framework.SettleTimeout, fmt.Sprintf("pod %q has three workers", pod), func() error {
			if _, workers, err := n.processes(pod); err != nil || len(workers) != 3 {
				return fmt.Errorf("it has %v: %v", workers, err)
			}
			return nil
		})
	}
	c.answered()
	c.stop()
	if after := n.UIDs(); !maps.Equal(uids, after) {
		n.Errorf("the pods were %v and are %v: a dynamic parameter replaces none", uids, after)
	}
	if after := n.masters(); !maps.Equal(masters, after) {
		n.Errorf("the master processes were %v and are %v: a dynamic parameter restarts none", masters, after)
	}
}

// checkRefusedReload asks for what the schema allows and nginx does not: a server behind it that has no address.
// Requests are answered all the time, and the Application says what nginx says.
func (n *nginx) checkRefusedReload() {
	masters := n.masters()
	c := n.startClient(n.Pods()[0].Name)
	n.Update(framework.WithComponent(nginxComponent, func(c *platformv1.ApplicationComponent) {
		c.Parameters = platformv1.Parameters{"proxy_pass": "http://nobody.invalid:80"}
	}))
	n.Eventually(framework.SettleTimeout, "the Application says what nginx says", func() error {
		if text := framework.Describe(n.Object().Status.Conditions); !strings.Contains(text, "nobody.invalid") {
			return fmt.Errorf("it says: %s", text)
		}
		return nil
	})
	c.answered()
	n.Update(framework.WithComponent(nginxComponent, func(c *platformv1.ApplicationComponent) {
		c.Parameters = platformv1.Parameters{"worker_processes": "2"}
	}))
	n.WaitReady()
	c.stop()
	if after := n.masters(); !maps.Equal(masters, after) {
		n.Errorf("the master processes were %v and are %v", masters, after)
	}
}
