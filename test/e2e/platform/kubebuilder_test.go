// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// How long a command may take. It ends earlier by itself, unless the cluster or the network does not answer.
const (
	makeTimeout    = 15 * time.Minute
	kubectlTimeout = 6 * time.Minute
)

// sharedDefinition is one of the definitions that all operators install.
const sharedDefinition = "customresourcedefinition/applications.platform.zeroinfra.github.com"

// project is the kubebuilder project of an operator: its folder has a Makefile with kubebuilder's targets.
type project struct {
	*testing.T
	name, root, kubeconfig string
}

// newProject returns the project of an operator, to be tried on the cluster of KUBECONFIG.
func newProject(t *testing.T, name string) *project {
	t.Helper()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := os.Getenv("KUBECONFIG")
	if kubeconfig == "" {
		t.Fatal("KUBECONFIG is not set: name the kubeconfig of the cluster to test on")
	}
	if !filepath.IsAbs(kubeconfig) {
		kubeconfig = filepath.Join(root, "test", kubeconfig) // as for all tests of this module
	}
	return &project{T: t, name: name, root: root, kubeconfig: kubeconfig}
}

// namespace is what the kustomization of the project deploys to.
func (p *project) namespace() string { return p.name + "-system" }

// installer is the file that build-installer writes.
func (p *project) installer() string { return filepath.Join(p.root, "dist", p.name, "install.yaml") }

// image returns the reference of an image of this version, as the nodes of the cluster have it.
func (p *project) image(name string) string {
	p.Helper()
	version, err := os.ReadFile(filepath.Join(p.root, "VERSION"))
	if err != nil {
		p.Fatal(err)
	}
	image := "zeroinfra/" + name + ":" + strings.TrimSpace(string(version))
	if registry := os.Getenv("REGISTRY"); registry != "" {
		image = registry + "/" + image
	}
	return image
}

// make runs a target of the project's Makefile and returns what it prints.
func (p *project) make(target string, variables ...string) string {
	p.Helper()
	arguments := append([]string{"--no-print-directory", "-C", filepath.Join(p.root, p.name), target}, variables...)
	out, err := p.run(makeTimeout, "make", arguments...)
	if err != nil {
		p.Fatalf("make -C %s %s %s: %v\n%s", p.name, target, strings.Join(variables, " "), err, out)
	}
	return out
}

// kubectl runs kubectl and returns what it prints.
func (p *project) kubectl(arguments ...string) string {
	p.Helper()
	out, err := p.run(kubectlTimeout, "kubectl", arguments...)
	if err != nil {
		p.Fatalf("kubectl %s: %v\n%s", strings.Join(arguments, " "), err, out)
	}
	return strings.TrimSpace(out)
}

// run runs a command. It goes on without the test's own context, which has ended when cleanups run.
func (p *project) run(timeout time.Duration, name string, arguments ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.Context()), timeout)
	defer cancel()
	command := exec.CommandContext(ctx, name, arguments...)
	// The test is itself run by make; the flags and variables of that make are not meant for the one below.
	ofMake := []string{"MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MFLAGS", "VERSION", "IMG", "AGENT_IMG"}
	command.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool {
		key, _, _ := strings.Cut(variable, "=")
		return slices.Contains(ofMake, key)
	})
	command.Env = append(command.Env, "KUBECONFIG="+p.kubeconfig)
	out, err := command.CombinedOutput()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return string(out), err
}

// createNamespace makes the namespace of the kustomization and removes it at the end. Where it exists already, the test
// fails and leaves it alone.
func (p *project) createNamespace() {
	p.Helper()
	p.kubectl("create", "namespace", p.namespace())
	p.Cleanup(func() { p.kubectl("delete", "namespace", p.namespace(), "--ignore-not-found") })
}

// refuseIfInstalled fails where the operator runs already, whether by Helm or by make deploy: two operators of one
// domain would compete, and undeploy could delete the other one's roles.
func (p *project) refuseIfInstalled() {
	p.Helper()
	selector := "app.kubernetes.io/name=" + p.name
	found := p.kubectl("get", "deployments", "--all-namespaces", "--selector", selector, "--output", "name")
	found += p.kubectl("get", "namespace", p.namespace(), "--ignore-not-found", "--output", "name")
	if found != "" {
		p.Fatalf("the %s is installed already (%s): uninstall it, or run this test on a cluster without it", p.name, found)
	}
}

// awaitRollout waits until the manager that was deployed is ready.
func (p *project) awaitRollout() {
	p.Helper()
	in := []string{"--namespace", p.namespace()}
	rollout := append([]string{"rollout", "status", "deployment/" + p.name + "-controller-manager", "--timeout=5m"}, in...)
	out, err := p.run(kubectlTimeout, "kubectl", rollout...)
	if err == nil {
		return
	}
	for _, last := range [][]string{
		{"get", "pods", "--output", "wide"},
		{"get", "events", "--sort-by", ".lastTimestamp"},
		{"logs", "--selector", "control-plane=controller-manager", "--tail", "30"},
	} {
		seen, _ := p.run(kubectlTimeout, "kubectl", append(last, in...)...)
		out += "\n$ kubectl " + strings.Join(last, " ") + "\n" + seen
	}
	p.Fatalf("the manager of %s did not become ready: %v\n%s", p.name, err, out)
}

// TestKubebuilderTargetsDeployAndRemoveAnOperator runs the targets of one project, from the image to the removal of the
// operator. The operator has no kinds and no instances, so that no other test depends on it.
func TestKubebuilderTargetsDeployAndRemoveAnOperator(t *testing.T) {
	p := newProject(t, "model-operator")
	p.refuseIfInstalled()
	images := []string{"IMG=" + p.image(p.name), "AGENT_IMG=" + p.image("agent")}

	p.make("build-installer", images...)
	if written, err := os.ReadFile(p.installer()); err != nil || !strings.Contains(string(written), p.image(p.name)) {
		t.Errorf("build-installer wrote no %s with the image %s: %v", p.installer(), p.image(p.name), err)
	}
	// There is no program of this name: the target works as on a machine without Docker.
	built := p.make("docker-build", append(slices.Clone(images), "CONTAINER_TOOL=no-container-tool")...)
	if !strings.Contains(built, "building with hack/images") {
		t.Errorf("docker-build without a container engine did not use hack/images:\n%s", built)
	}
	p.make("install")
	p.kubectl("wait", "--for=condition=Established", sharedDefinition, "--timeout=2m")

	t.Cleanup(func() { p.make("undeploy", images...) })
	p.make("deploy", images...)
	p.awaitRollout()
	const container = "jsonpath={range .items[*].spec.template.spec.containers[0]}{.image} {.args}{end}"
	deployed := p.kubectl("get", "deployments", "--namespace", p.namespace(), "--output", container)
	agent := "--agent-image=" + p.image("agent")
	if !strings.HasPrefix(deployed, p.image(p.name)+" ") || !strings.Contains(deployed, agent) {
		t.Errorf("deploy does not run the images %v: %s", images, deployed)
	}

	p.make("undeploy", images...)
	if left := p.kubectl("get", "namespace", p.namespace(), "--ignore-not-found", "--output", "name"); left != "" {
		t.Errorf("undeploy left %s", left)
	}
	selector := "app.kubernetes.io/name=" + p.name
	const clusterWide = "clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings"
	if left := p.kubectl("get", clusterWide, "--selector", selector, "--output", "name"); left != "" {
		t.Errorf("undeploy left %s", left)
	}
	p.kubectl("get", sharedDefinition)
	p.make("uninstall")
	left := p.kubectl("get", "customresourcedefinitions", "--output", "name")
	if strings.Contains(left, ".ai.zeroinfra.github.com") {
		t.Errorf("uninstall left definitions of kinds:\n%s", left)
	}
	p.kubectl("get", sharedDefinition)
}

// TestKubebuilderInstallersAreAccepted has the API server check what build-installer writes for the other operators. A
// dry run leaves the operators alone that are installed on the cluster.
func TestKubebuilderInstallersAreAccepted(t *testing.T) {
	others := []string{"batch-operator", "common-operator", "database-operator", "message-operator", "storage-operator"}
	for _, name := range others {
		t.Run(name, func(t *testing.T) {
			p := newProject(t, name)
			p.createNamespace()
			p.make("build-installer")
			p.kubectl("apply", "--dry-run=server", "--filename", p.installer())
		})
	}
}

// TestSamplesAreAccepted has the API server check the samples that no smoke test applies as they stand, or that need no
// definitions of their own.
func TestSamplesAreAccepted(t *testing.T) {
	for _, name := range []string{"common-operator", "model-operator"} {
		t.Run(name, func(t *testing.T) {
			p := newProject(t, name)
			p.make("install")
			p.kubectl("apply", "--dry-run=server", "--kustomize", filepath.Join(p.root, name, "config/samples"))
		})
	}
}
