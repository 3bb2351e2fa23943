// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// The password goes in on standard input, so that it is on no command line. redis-cli itself would wait for minutes for
// the address of a pod that has just gone.
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

// Account is how a client reaches a Redis: what the binding Secret says.
type Account struct {
	Host, Port, Username, Password, URI string
	// CA is the certificate of the CA where the instance speaks TLS, else empty.
	CA string
}

// ClientPodName is the name of the pod that redis-cli runs in.
const ClientPodName = "client"

// ClientPod returns the pod of the namespace that redis-cli runs in. It is made when first needed.
func (s *Namespace) ClientPod() string {
	s.Helper()
	s.Client.once.Do(s.makeClient)
	if !s.Client.ready {
		s.Fatal("there is no client pod")
	}
	return ClientPodName
}

func (s *Namespace) makeClient() {
	s.Helper()
	s.RunClient(ClientPodName, RedisImage)
	s.Client.ready = true
}

// RunClient has a pod of the name, with a container of the same name, that waits for commands of a client.
func (s *Namespace) RunClient(name, image string, changes ...func(*corev1.Pod)) {
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
				// As PID 1 it reaps what commands leave behind: each is a process of the node otherwise, until there is no room for
				// another.
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
	s.Create(pod)
	s.Eventually(ReadyTimeout, "the client pod runs", func() error {
		if err := s.Get(pod.Name, pod); err != nil {
			return err
		}
		if pod.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("it is %s: %v", pod.Status.Phase, pod.Status.ContainerStatuses)
		}
		return nil
	})
}

// RedisCLI runs a command with redis-cli in the client pod.
func (s *Namespace) RedisCLI(a Account, arguments ...string) (string, error) {
	s.Helper()
	script := cliScript
	if a.CA != "" {
		script = cliTLSScript
	}
	command := []string{"sh", "-c", script, "redis-cli", "-h", a.Host, "-p", a.Port}
	if a.Username != "" {
		command = append(command, "--user", a.Username)
	}
	return Run(s.Ctx, s.Name, s.ClientPod(), ClientPodName, a.Password+"\n"+a.CA, append(command, arguments...)...)
}

// RedisURI runs a command with nothing but a URI.
func (s *Namespace) RedisURI(uri string, arguments ...string) (string, error) {
	s.Helper()
	command := append([]string{"sh", "-c", uriScript, "redis-cli"}, arguments...)
	return Run(s.Ctx, s.Name, s.ClientPod(), ClientPodName, uri+"\n", command...)
}

// Account reads the binding Secret that the status names.
func (i *Instance) Account() Account {
	i.Helper()
	name := i.Object().Status.BindingName
	if name == "" {
		i.Fatalf("the status of Redis %q names no binding", i.Name)
	}
	return i.AccountIn(name)
}

// AccountIn reads a binding Secret.
func (s *Namespace) AccountIn(name string) Account {
	s.Helper()
	secret := &corev1.Secret{}
	s.MustGet(name, secret)
	a := Account{
		Host: string(secret.Data["host"]), Port: string(secret.Data["port"]),
		Username: string(secret.Data["username"]), Password: string(secret.Data["password"]),
		URI: string(secret.Data["uri"]), CA: string(secret.Data["ca.crt"]),
	}
	if a.Host == "" || a.Port == "" || a.Username == "" || a.Password == "" || a.URI == "" {
		s.Fatalf("binding %q lacks one of host, port, username, password and uri: it has %v", name, SortedKeys(secret.Data))
	}
	return a
}

// Do runs a command through the Service with what the binding says.
func (i *Instance) Do(arguments ...string) (string, error) {
	i.Helper()
	return i.RedisCLI(i.Account(), arguments...)
}

// MustDo is Do for what has to succeed.
func (i *Instance) MustDo(arguments ...string) string {
	i.Helper()
	return i.MustRunClientCommand(func() (string, error) { return i.Do(arguments...) })
}

// Config reads one setting back from the running server.
func (i *Instance) Config(name string) string {
	i.Helper()
	_, value, _ := strings.Cut(i.MustDo("CONFIG", "GET", name), "\n")
	return value
}

// WaitForConfig says what is wrong unless the running server has these settings.
func (i *Instance) WaitForConfig(want map[string]string) error {
	i.Helper()
	for name, value := range want {
		out, err := i.Do("CONFIG", "GET", name)
		if err != nil {
			return err
		}
		if _, got, _ := strings.Cut(out, "\n"); got != value {
			return fmt.Errorf("CONFIG GET %s is %q, want %q", name, got, value)
		}
	}
	return nil
}

// Info reads one field of INFO.
func (i *Instance) Info(field string) string {
	i.Helper()
	return InfoField(i.MustDo("INFO"), field)
}

// InfoField finds a field in the output of INFO.
func InfoField(info, field string) string {
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && name == field {
			return value
		}
	}
	return ""
}

// SortedKeys returns the keys of a map in order.
func SortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	return keys
}
