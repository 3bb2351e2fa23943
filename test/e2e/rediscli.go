// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// The password goes in on standard input, so that it is on no command line. redis-cli itself would wait for minutes for the address
// of a pod that has just gone.
const (
	cliScript = `IFS= read -r REDISCLI_AUTH
export REDISCLI_AUTH
exec timeout 10 redis-cli -e --no-auth-warning "$@"`
	// A CA comes on the lines after the password. Commands may run side by side: each has a file of its own.
	cliTLSScript = `IFS= read -r REDISCLI_AUTH
export REDISCLI_AUTH
cat >/tmp/ca.$$
timeout 10 redis-cli -e --no-auth-warning --tls --cacert /tmp/ca.$$ "$@"
code=$?
rm /tmp/ca.$$
exit $code`
	uriScript = `IFS= read -r URI
exec timeout 10 redis-cli -e --no-auth-warning -u "$URI" "$@"`
)

// account is how a client reaches a Redis: what the binding Secret says.
type account struct {
	host, port, username, password, uri string
	// ca is the certificate of the CA where the instance speaks TLS, else empty.
	ca string
}

// clientName is the name of the pod that redis-cli runs in.
const clientName = "client"

// clientPod returns the pod of the namespace that redis-cli runs in. It is made when first needed.
func (s *space) clientPod() string {
	s.Helper()
	s.client.once.Do(s.makeClient)
	if !s.client.ready {
		s.Fatal("there is no client pod")
	}
	return clientName
}

func (s *space) makeClient() {
	s.Helper()
	s.runClient(clientName, redisImage)
	s.client.ready = true
}

// runClient has a pod of the name, with a container of the same name, that waits for commands of a client.
func (s *space) runClient(name, image string, changes ...func(*corev1.Pod)) {
	s.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken:  ptr.To(false),
			EnableServiceLinks:            ptr.To(false),
			TerminationGracePeriodSeconds: ptr.To[int64](0),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](999), RunAsGroup: ptr.To[int64](999),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Volumes: []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
			Containers: []corev1.Container{{
				Name: name, Image: image, ImagePullPolicy: corev1.PullIfNotPresent,
				// As PID 1 it reaps what commands leave behind: each is a process of the node otherwise, until there is no room for another.
				Command:      []string{"sh", "-c", "while :; do sleep 60 & wait $!; done"},
				VolumeMounts: []corev1.VolumeMount{{Name: "tmp", MountPath: "/tmp"}},
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
					Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
		},
	}
	for _, change := range changes {
		change(pod)
	}
	s.create(pod)
	s.eventually(readyIn, "the client pod runs", func() error {
		if err := s.get(pod.Name, pod); err != nil {
			return err
		}
		if pod.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("it is %s: %v", pod.Status.Phase, pod.Status.ContainerStatuses)
		}
		return nil
	})
}

// redisCLI runs a command with redis-cli in the client pod.
func (s *space) redisCLI(a account, arguments ...string) (string, error) {
	s.Helper()
	script := cliScript
	if a.ca != "" {
		script = cliTLSScript
	}
	command := []string{"sh", "-c", script, "redis-cli", "-h", a.host, "-p", a.port}
	if a.username != "" {
		command = append(command, "--user", a.username)
	}
	return run(s.ctx, s.name, s.clientPod(), clientName, a.password+"\n"+a.ca, append(command, arguments...)...)
}

// redisURI runs a command with nothing but a URI.
func (s *space) redisURI(uri string, arguments ...string) (string, error) {
	s.Helper()
	command := append([]string{"sh", "-c", uriScript, "redis-cli"}, arguments...)
	return run(s.ctx, s.name, s.clientPod(), clientName, uri+"\n", command...)
}

// account reads the binding Secret that the status names.
func (i *instance) account() account {
	i.Helper()
	name := i.object().Status.BindingName
	if name == "" {
		i.Fatalf("the status of Redis %q names no binding", i.name)
	}
	return i.accountIn(name)
}

// accountIn reads a binding Secret.
func (s *space) accountIn(name string) account {
	s.Helper()
	secret := &corev1.Secret{}
	s.mustGet(name, secret)
	a := account{
		host: string(secret.Data["host"]), port: string(secret.Data["port"]),
		username: string(secret.Data["username"]), password: string(secret.Data["password"]),
		uri: string(secret.Data["uri"]), ca: string(secret.Data["ca.crt"]),
	}
	if a.host == "" || a.port == "" || a.username == "" || a.password == "" || a.uri == "" {
		s.Fatalf("binding %q lacks one of host, port, username, password and uri: it has %v", name, keysOf(secret.Data))
	}
	return a
}

// do runs a command through the Service with what the binding says.
func (i *instance) do(arguments ...string) (string, error) {
	i.Helper()
	return i.redisCLI(i.account(), arguments...)
}

// must is do for what has to succeed.
func (i *instance) must(arguments ...string) string {
	i.Helper()
	return i.answered(func() (string, error) { return i.do(arguments...) })
}

// config reads one setting back from the running server.
func (i *instance) config(name string) string {
	i.Helper()
	_, value, _ := strings.Cut(i.must("CONFIG", "GET", name), "\n")
	return value
}

// wantConfig says what is wrong unless the running server has these settings.
func (i *instance) wantConfig(want map[string]string) error {
	i.Helper()
	for name, value := range want {
		out, err := i.do("CONFIG", "GET", name)
		if err != nil {
			return err
		}
		if _, got, _ := strings.Cut(out, "\n"); got != value {
			return fmt.Errorf("CONFIG GET %s is %q, want %q", name, got, value)
		}
	}
	return nil
}

// info reads one field of INFO.
func (i *instance) info(field string) string {
	i.Helper()
	return infoField(i.must("INFO"), field)
}

func infoField(info, field string) string {
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && name == field {
			return value
		}
	}
	return ""
}

func keysOf[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	return keys
}
