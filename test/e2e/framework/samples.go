// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"net"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// CheckBinding proves that the data of the binding Secret are all that a client needs, and that less is refused.
func (i *Instance) CheckBinding() {
	i.Helper()
	a := i.Account()
	secret := &corev1.Secret{}
	i.MustGet(i.Object().Status.BindingName, secret)
	if secret.Type != "servicebinding.io/redis" || string(secret.Data["type"]) != "redis" {
		i.Errorf("binding %q is of type %q with data type %q, want servicebinding.io/redis and redis", secret.Name,
			secret.Type, secret.Data["type"])
	}
	if out := i.MustDo("SET", "greeting", "hello"); out != "OK" {
		i.Errorf("SET answered %q", out)
	}
	if out := i.MustDo("GET", "greeting"); out != "hello" {
		i.Errorf("GET answered %q", out)
	}
	get := func() (string, error) { return i.RedisURI(a.URI, "GET", "greeting") }
	if out, err := i.RunClientCommand(get); err != nil || out != "hello" {
		i.Errorf("GET with the binding's uri answered %q: %v", out, err)
	}
	parsed, err := url.Parse(a.URI)
	if err != nil {
		i.Fatalf("the binding's uri cannot be parsed")
	}
	if password, _ := parsed.User.Password(); parsed.Scheme != "redis" || password != a.Password ||
		parsed.Host != net.JoinHostPort(a.Host, a.Port) {
		i.Errorf("the binding's uri does not carry the scheme redis and the same host, port and password as the rest")
	}
	for name, wrong := range map[string]Account{
		"a wrong password": {Host: a.Host, Port: a.Port, Username: a.Username, Password: "x" + a.Password},
		"no password":      {Host: a.Host, Port: a.Port},
		"another user":     {Host: a.Host, Port: a.Port, Username: "admin", Password: a.Password},
	} {
		out, err := i.RunClientCommand(func() (string, error) { return i.RedisCLI(wrong, "GET", "greeting") })
		if err == nil || out == "hello" {
			i.Errorf("with %s, GET answered %q", name, out)
		} else if !strings.Contains(err.Error(), "NOAUTH") && !strings.Contains(err.Error(), "WRONGPASS") {
			i.Errorf("with %s, GET failed for another reason: %v", name, err)
		}
	}
	host := strings.TrimSuffix(a.Host, ".")
	if !slices.Contains([]string{i.Application() + "." + i.Namespace.Name + ".svc.cluster.local", i.Application() + "." +
		i.Namespace.Name + ".svc", i.Application() + "." + i.Namespace.Name}, host) {
		i.Errorf("the binding's host %q is not the Service of the instance", a.Host)
	}
}
