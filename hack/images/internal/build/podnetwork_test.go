// SPDX-License-Identifier: Apache-2.0

//go:build processes

package build

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"go.yaml.in/yaml/v3"
	"golang.org/x/sys/unix"
)

// network is what a pod is in.
type network struct {
	name, address string
	// withoutIPv6 is on machines whose kernel has IPv6 turned off.
	withoutIPv6 bool
	// asked are the addresses at which the pod must answer.
	asked []string
}

// podObject is what a test needs to know of a rendered Pod.
type podObject struct {
	Kind     string
	Metadata struct{ Name, Namespace string }
	Data     map[string]string
	Spec     struct {
		Hostname, Subdomain string
		SecurityContext     struct {
			RunAsUser  int `yaml:"runAsUser"`
			RunAsGroup int `yaml:"runAsGroup"`
		} `yaml:"securityContext"`
		Containers []podContainer
		Volumes    []struct {
			Name      string
			ConfigMap struct{ Name string } `yaml:"configMap"`
			Projected struct {
				Sources []struct {
					Secret struct{ Items []struct{ Path string } }
				}
			}
		}
	}
}

type podContainer struct {
	Name, Image string
	Command     []string
	Env         []struct {
		Name, Value string
		ValueFrom   struct {
			FieldRef struct {
				FieldPath string `yaml:"fieldPath"`
			} `yaml:"fieldRef"`
		} `yaml:"valueFrom"`
	}
	Ports []struct {
		ContainerPort int `yaml:"containerPort"`
	}
	VolumeMounts []struct {
		MountPath string `yaml:"mountPath"`
		Name      string
	} `yaml:"volumeMounts"`
}

// renderedPod is a Pod with its plan.
type renderedPod struct {
	podObject
	plan  []byte
	tools tools
	made  map[string]string
}

// tools are the folder of the programs that a test builds.
type tools struct{ dir string }

// familyTools builds what renders plugins and the agents, as they are in the working tree.
func familyTools(t *testing.T) tools {
	t.Helper()
	dir := t.TempDir()
	for module, programs := range map[string][]string{"platform-core": {"./cmd/zictl"},
		"agents": {"./cmd/agent", "./cmd/agent-ops"}} {
		cmd := exec.Command("go", append([]string{"build", "-o", dir + "/"}, programs...)...)
		cmd.Dir = filepath.Join("../../../..", module)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("cannot build %s: %v: %s", module, err, out)
		}
	}
	return tools{dir}
}

// render has a plugin render an instance, and returns its first pod of the set.
func (o tools) render(t *testing.T, i ofFamilies) *renderedPod {
	t.Helper()
	var spec map[string]any
	if err := yaml.Unmarshal([]byte(i.spec), &spec); err != nil {
		t.Fatal(err)
	}
	spec["plugin"], spec["pluginVersion"] = filepath.Base(i.plugin), "1.0.0"
	input, err := json.Marshal(map[string]any{"apiVersion": "platform.zeroinfra.github.com/v1", "kind": "Application",
		"metadata": map[string]string{"name": "one", "namespace": "families"}, "spec": spec})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(o.dir, "zictl"), "plugin", "render", filepath.Join("../../../..", i.plugin, "1.0.0"),
		"-f", "-")
	var said bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(input), &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("cannot render %s: %v: %s", input, err, said.String())
	}
	return o.podOf(t, out, i)
}

func (o tools) podOf(t *testing.T, rendered []byte, i ofFamilies) *renderedPod {
	t.Helper()
	set := "one-" + i.set
	p := &renderedPod{tools: o, made: i.made}
	for documents := yaml.NewDecoder(bytes.NewReader(rendered)); ; {
		var object podObject
		err := documents.Decode(&object)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case object.Kind == "Pod" && object.Metadata.Name == set+"-0":
			p.podObject = object
		case object.Kind == "ConfigMap" && object.Metadata.Name == set+"-plan":
			p.plan = []byte(object.Data["plan.json"])
		}
	}
	if p.Kind == "" || p.plan == nil {
		t.Fatalf("there is no pod with its plan in %s", rendered)
	}
	if i.edit != nil {
		var plan map[string]any
		err := json.Unmarshal(p.plan, &plan)
		if err == nil {
			i.edit(plan)
			p.plan, err = json.Marshal(plan)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// containers are those that run a program of the agents in the image of the middleware, which is first.
func (p *renderedPod) containers() []podContainer {
	var all []podContainer
	for _, c := range p.Spec.Containers {
		if c.Image == p.Spec.Containers[0].Image && strings.HasPrefix(c.Command[0], "/zeroinfra/bin/agent") {
			all = append(all, c)
		}
	}
	return all
}

// ports of these containers.
func (p *renderedPod) ports() []int {
	var all []int
	for _, c := range p.containers() {
		for _, port := range c.Ports {
			all = append(all, port.ContainerPort)
		}
	}
	return all
}

// imageRoot builds an image of the suite, and returns the folder that it was extracted to and what it says of itself.
func imageRoot(t *testing.T, reference string) (string, *v1.ConfigFile) {
	t.Helper()
	b, image := realImage(t, reference)
	build(t, b, image)
	archive, err := b.Open(image)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	config, err := archive.Image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	return extract(t, archive.Image), config
}

// running is a pod that runs in a network of its own.
type running struct {
	said *podLog
	main *exec.Cmd
	over chan struct{}
	// pid is of the process whose network it is.
	pid int
}

// podLog is what processes say.
type podLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *podLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *podLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// podScript has the rest of its arguments run in the network that it was started in: root, address, and whether there
// is IPv6.
const podScript = `
mount --bind /dev "$0/dev" && mount -t tmpfs -o mode=1777 shm "$0/dev/shm" && mount -t proc proc "$0/proc" || exit
[ "$2" = true ] || echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6 || exit
ip link set lo up && ip address add "$1" dev lo || exit
shift 2
exec "$@"
`

// run starts all containers of the pod, with empty volumes.
func (p *renderedPod) run(t *testing.T, root string, image *v1.ConfigFile, n network) *running {
	t.Helper()
	p.mount(t, root, n)
	r := &running{said: &podLog{}, over: make(chan struct{})}
	for i, c := range p.containers() {
		user := fmt.Sprintf("--userspec=%d:%d", p.Spec.SecurityContext.RunAsUser, p.Spec.SecurityContext.RunAsGroup)
		command := append([]string{"chroot", user, root}, c.Command...)
		if i == 0 {
			bits := "/32"
			if strings.Contains(n.address, ":") {
				bits = "/128"
			}
			command = append([]string{"unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", podScript,
				root, n.address + bits, strconv.FormatBool(!n.withoutIPv6)}, command...)
		} else {
			command = append([]string{"nsenter", "--target", strconv.Itoa(r.pid), "--net", "--mount"}, command...)
		}
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Env, cmd.Stdout, cmd.Stderr = p.environment(t, c, image, n), r.said, r.said
		cmd.WaitDelay = time.Second
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		over := r.over
		if i > 0 {
			over = make(chan struct{})
		}
		go func() {
			defer close(over)
			_ = cmd.Wait()
		}()
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			// With the first process of the pod all others end. What changes its user loses the signal of its parent's end.
			if i == 0 && r.pid > 0 {
				_ = syscall.Kill(r.pid, syscall.SIGKILL)
			}
			<-over
		})
		if i == 0 {
			r.awaitPID(t, cmd.Process.Pid)
		}
	}
	return r
}

// awaitPID waits until the network is there.
func (r *running) awaitPID(t *testing.T, parent int) {
	t.Helper()
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(etcdIn); ; time.Sleep(20 * time.Millisecond) {
		data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", parent, parent))
		r.pid, _ = strconv.Atoi(strings.TrimSpace(string(data)))
		if other, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", r.pid)); err == nil && r.pid > 0 && other != own {
			return
		}
		if time.Now().After(end) || r.ended() {
			t.Fatalf("the pod has no network: %s", r.said)
		}
	}
}

func (r *running) ended() bool {
	select {
	case <-r.over:
		return true
	default:
		return false
	}
}

// dial connects within the network of the pod.
func (r *running) dial(address string) (net.Conn, error) {
	type outcome struct {
		net.Conn
		error
	}
	done := make(chan outcome, 1)
	go func() {
		// The thread ends with the goroutine: nobody else is to run in that network.
		runtime.LockOSThread()
		space, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", r.pid))
		if err == nil {
			err = errors.Join(unix.Setns(int(space.Fd()), unix.CLONE_NEWNET), space.Close())
		}
		var conn net.Conn
		if err == nil {
			conn, err = net.DialTimeout("tcp", address, 5*time.Second)
		}
		done <- outcome{conn, err}
	}()
	got := <-done
	return got.Conn, got.error
}

// environment of a container.
func (p *renderedPod) environment(t *testing.T, c podContainer, image *v1.ConfigFile, n network) []string {
	t.Helper()
	fields := map[string]string{"metadata.name": p.Metadata.Name, "metadata.namespace": p.Metadata.Namespace,
		"status.podIP": n.address, "status.podIPs": n.address, "status.hostIP": n.address}
	env := append([]string{"PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "KUBERNETES_SERVICE_HOST=" + n.address,
		"KUBERNETES_SERVICE_PORT=1"}, image.Config.Env...)
	for _, e := range c.Env {
		value, found := e.Value, true
		if path := e.ValueFrom.FieldRef.FieldPath; path != "" {
			value, found = fields[path]
		}
		if !found {
			t.Fatalf("the container %s wants %+v", c.Name, e)
		}
		env = append(env, e.Name+"="+value)
	}
	return env
}

// mount gives the pod its volumes, of which only those of the plan, the credentials and the agents' identity have
// files.
func (p *renderedPod) mount(t *testing.T, root string, n network) {
	t.Helper()
	var plan struct{ Domain string }
	errs := []error{json.Unmarshal(p.plan, &plan)}
	files := map[string]string{"/zeroinfra/plan/plan.json": string(p.plan),
		"/var/run/secrets/kubernetes.io/serviceaccount/token": "token"}
	certificate, key := selfSigned(t)
	for _, dir := range []string{"/zeroinfra/tls/", "/var/run/secrets/kubernetes.io/serviceaccount/"} {
		files[dir+"ca.crt"], files[dir+"tls.crt"], files[dir+"tls.key"] = certificate, certificate, key
	}
	for _, volume := range p.Spec.Volumes {
		for _, source := range volume.Projected.Sources {
			for _, item := range source.Secret.Items {
				files["/zeroinfra/secrets/"+item.Path] = "not-a-secret"
			}
		}
	}
	// What the operator writes onto the pod once it is on a node.
	for _, c := range p.containers() {
		for _, m := range c.VolumeMounts {
			if m.MountPath == "/zeroinfra/pod" {
				files["/zeroinfra/pod/zone"] = `"eu-1a"`
			}
		}
	}
	maps.Copy(files, p.made)
	host := p.Spec.Hostname + "." + plan.Domain
	files["/etc/hosts"] = fmt.Sprintf("127.0.0.1 localhost\n::1 localhost\n%s %s %s\n", n.address, host, p.Spec.Hostname)
	errs = append(errs, p.put(root, files))
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// put makes the folders that volumes are mounted at anew, and writes files there.
func (p *renderedPod) put(root string, files map[string]string) error {
	// Links of the image lead to nowhere outside of it.
	in, err := os.OpenRoot(root)
	if err != nil {
		return err
	}
	defer in.Close()
	var errs []error
	owner := p.Spec.SecurityContext
	folders := []string{"/dev", "/proc"}
	for _, c := range p.containers() {
		for _, m := range c.VolumeMounts {
			if !strings.HasPrefix(m.MountPath, "/dev/") {
				errs = append(errs, in.RemoveAll(m.MountPath[1:]))
				folders = append(folders, m.MountPath)
			}
		}
	}
	for _, path := range folders {
		errs = append(errs, in.MkdirAll(path[1:], 0o755), in.Chown(path[1:], owner.RunAsUser, owner.RunAsGroup))
	}
	for path, content := range files {
		errs = append(errs, in.MkdirAll(filepath.Dir(path[1:]), 0o755), in.WriteFile(path[1:], []byte(content), 0o644),
			in.Chown(path[1:], owner.RunAsUser, owner.RunAsGroup))
	}
	for _, program := range []string{"agent", "agent-ops"} {
		data, err := os.ReadFile(filepath.Join(p.tools.dir, program))
		errs = append(errs, err, in.WriteFile("zeroinfra/bin/"+program, data, 0o755))
	}
	return errors.Join(errs...)
}

// selfSigned is a certificate that is its own authority.
func selfSigned(t *testing.T) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))
}
