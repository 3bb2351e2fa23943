// SPDX-License-Identifier: Apache-2.0

package render

import (
	"net"
	"net/url"
	"slices"
	"strconv"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
)

// Binding returns the data of the Secret that follows the Service Binding
// specification; nil when the plugin declares none for the topology or its Service is not among the endpoints, which are those of all components.
// ca is the certificate of the CA
// where the instance speaks TLS, else empty.
func Binding(b *plugin.Bundle, application, topology string, endpoints []platformv1.Endpoint, username, password string, ca []byte) map[string][]byte {
	binding := b.Binding(topology)
	if binding == nil {
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
	i := slices.IndexFunc(component.Ports, func(p plugin.Port) bool { return p.Name == binding.Port })
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
		data["username"], data["password"] = []byte(username), []byte(password)
		user = url.UserPassword(username, password)
	}
	scheme := binding.URIScheme
	if len(ca) > 0 {
		data[plan.CAFile], scheme = ca, binding.URISchemeTLS
	}
	uriOf := func(host string) []byte {
		uri := url.URL{Scheme: scheme, User: user, Host: net.JoinHostPort(host, port)}
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
	for alias, of := range binding.Aliases {
		data[alias] = data[of]
		if of == plugin.BoundEndpoint {
			data[alias] = []byte((&url.URL{Scheme: scheme, Host: net.JoinHostPort(host, port)}).String())
		}
	}
	for _, also := range binding.Also {
		bindAlso(b, data, also, hostOf(also.Service))
	}
	return data
}

// bindAlso adds a further Service, where it is there.
func bindAlso(b *plugin.Bundle, data map[string][]byte, also plugin.BoundService, host string) {
	component, ok := b.Component(also.Component)
	if !ok || host == "" {
		return
	}
	i := slices.IndexFunc(component.Ports, func(p plugin.Port) bool { return p.Name == also.Port })
	if i < 0 {
		return
	}
	data[also.Prefix+"-host"] = []byte(host)
	data[also.Prefix+"-port"] = []byte(strconv.Itoa(int(component.Ports[i].Port)))
	for key, value := range also.Values {
		data[also.Prefix+"-"+key] = []byte(value)
	}
}
