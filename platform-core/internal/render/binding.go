// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"net"
	"net/url"
	"slices"
	"strconv"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// Login is what clients log in with. Database is empty where the middleware has no such thing.
type Login struct{ Username, Password, Database string }

// Binding returns the data of the Secret that follows the Service Binding
// specification; nil when the plugin declares none for the topology or its Service is not among the endpoints, which
// are those of all components. ca is the certificate of the CA
// where the instance speaks TLS, else empty.
func Binding(b *plugin.Bundle, application, topology string, endpoints []platformv1.Endpoint, login Login,
	ca []byte,
) map[string][]byte {
	binding := b.Binding(topology)
	if binding == nil || binding.External != nil {
		return nil
	}
	component, ok := b.Component(binding.Component)
	if !ok {
		return nil
	}
	hostOf := func(name string) string {
		service := plugin.ServiceNameFor(application, name)
		i := slices.IndexFunc(endpoints, func(e platformv1.Endpoint) bool { return e.Name == service })
		if i < 0 {
			return ""
		}
		return endpoints[i].Host
	}
	host := hostOf(binding.Service)
	i := slices.IndexFunc(component.Ports, func(p schema.Port) bool { return p.Name == binding.Port })
	if host == "" || i < 0 {
		return nil
	}
	port := strconv.Itoa(int(component.Ports[i].Port))
	data := map[string][]byte{
		"type":     []byte(binding.Type),
		"provider": []byte(platformv1.ManagedBy),
		"host":     []byte(host),
		"port":     []byte(port),
	}
	var user *url.Userinfo
	if binding.Credential != "" {
		data["username"], data["password"] = []byte(login.Username), []byte(login.Password)
		user = url.UserPassword(login.Username, login.Password)
	}
	if login.Database != "" {
		data["database"] = []byte(login.Database)
	}
	scheme := binding.URIScheme
	if len(ca) > 0 {
		data[plan.CAFile], scheme = ca, binding.URISchemeTLS
	}
	uriOf := func(host string) []byte {
		uri := url.URL{Scheme: scheme, User: user, Host: net.JoinHostPort(host, port), Path: login.Database}
		return []byte(uri.String())
	}
	if scheme != "" {
		data["uri"] = uriOf(host)
	}
	if readOnly := hostOf(binding.ReadOnlyService); binding.ReadOnlyService != "" && readOnly != "" {
		data["host-ro"] = []byte(readOnly)
		if scheme != "" {
			data["uri-ro"] = uriOf(readOnly)
		}
	}
	bindAliases(data, binding, url.URL{Scheme: scheme, Host: net.JoinHostPort(host, port)})
	for _, also := range binding.Also {
		bindAlso(b, data, also, hostOf(also.Service))
	}
	return data
}

// bindAliases adds the keys for clients that look for others.
func bindAliases(data map[string][]byte, binding *schema.Binding, endpoint url.URL) {
	for alias, of := range binding.Aliases {
		data[alias] = data[of]
		if of == schema.BoundEndpoint {
			data[alias] = []byte(endpoint.String())
		}
	}
}

// ExternalBinding returns the data of the same Secret for what is not in the pods; nil while the endpoint is no URL of
// a scheme and a host. ca is the authority of its certificate, empty for those that every client knows.
func ExternalBinding(binding *schema.Binding, endpoint, username, password string, ca []byte) map[string][]byte {
	at, err := url.Parse(endpoint)
	if err != nil || at.Hostname() == "" {
		return nil
	}
	at = &url.URL{Scheme: at.Scheme, Host: at.Host}
	port := at.Port()
	if port == "" {
		port = defaultPorts[at.Scheme]
	}
	data := map[string][]byte{
		"type":     []byte(binding.Type),
		"provider": []byte(platformv1.ManagedBy),
		"host":     []byte(at.Hostname()),
		"port":     []byte(port),
		"username": []byte(username),
		"password": []byte(password),
		"uri":      []byte((&url.URL{Scheme: at.Scheme, User: url.UserPassword(username, password), Host: at.Host}).String()),
	}
	if len(ca) > 0 {
		data[plan.CAFile] = ca
	}
	bindAliases(data, binding, *at)
	return data
}

// ExternalEndpoint returns where clients go for what is not in the pods; nil while the endpoint is no URL of a scheme
// and a host.
func ExternalEndpoint(binding *schema.Binding, endpoint string) *platformv1.Endpoint {
	at, err := url.Parse(endpoint)
	if err != nil || at.Hostname() == "" {
		return nil
	}
	port, err := strconv.ParseInt(cmp.Or(at.Port(), defaultPorts[at.Scheme]), 10, 32)
	if err != nil {
		return nil
	}
	return &platformv1.Endpoint{Name: binding.Type, Host: at.Hostname(), Port: int32(port)}
}

// defaultPorts are by the scheme of a URL that names none.
var defaultPorts = map[string]string{"http": "80", "https": "443"}

// bindAlso adds a further Service, where it is there.
func bindAlso(b *plugin.Bundle, data map[string][]byte, also schema.BoundService, host string) {
	component, ok := b.Component(also.Component)
	if !ok || host == "" {
		return
	}
	i := slices.IndexFunc(component.Ports, func(p schema.Port) bool { return p.Name == also.Port })
	if i < 0 {
		return
	}
	data[also.Prefix+"-host"] = []byte(host)
	data[also.Prefix+"-port"] = []byte(strconv.Itoa(int(component.Ports[i].Port)))
	for key, value := range also.Values {
		data[also.Prefix+"-"+key] = []byte(value)
	}
}
