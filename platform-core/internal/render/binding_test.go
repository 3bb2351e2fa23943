// SPDX-License-Identifier: Apache-2.0

package render

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// A binding names further Services where a topology has them.
func TestBindingNamesFurtherServices(t *testing.T) {
	b := changed(t, redisSources(t))
	for topology, want := range map[string]map[string]string{
		"sentinel": {"host": "cache.shop.svc", "sentinel-host": "cache-sentinel.shop.svc", "sentinel-port": "26379",
			"sentinel-master-name": "mymaster"},
		// Without Sentinels nothing says where they would be.
		"replication": {"host": "cache.shop.svc", "sentinel-host": "", "sentinel-port": "", "sentinel-master-name": ""},
	} {
		app := application(func(app *platformv1.Application) { app.Spec.Topology = topology })
		specs, refusal := Components(b, app)
		if refusal != nil {
			t.Fatal(refusal)
		}
		var endpoints []platformv1.Endpoint
		for i := range specs {
			output, refusal := Component(b, settings, Meta{Application: "cache", Namespace: "shop", Domain: "database"},
				&specs[i])
			if refusal != nil {
				t.Fatal(refusal)
			}
			endpoints = append(endpoints, output.Endpoints...)
		}
		// In whatever order components are looked at.
		slices.Reverse(endpoints)
		data := Binding(b.In(topology), "cache", topology, endpoints, Login{Username: "default", Password: "p"}, nil)
		for key, value := range want {
			if string(data[key]) != value {
				t.Errorf("%s: %s is %q, want %q", topology, key, data[key], value)
			}
		}
	}
}

// A binding has further keys for clients that look for them, and TLS changes the endpoint among them.
func TestBindingHasAliases(t *testing.T) {
	sources, errs := plugin.LoadFolder(
		os.DirFS(filepath.Join("..", "..", "..", "storage-operator", "plugins", "minio", "1.0.0")), "minio")
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	b, errs := plugin.Load(sources)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	endpoints := []platformv1.Endpoint{{Name: "media", Host: "media.shop.svc", Port: 9000}}
	for ca, scheme := range map[string]string{"": "http", "certificate": "https"} {
		data := Binding(b, "media", "standalone", endpoints, Login{Username: "root", Password: "p:w"}, []byte(ca))
		for key, want := range map[string]string{"type": "s3", "endpoint": scheme + "://media.shop.svc:9000",
			"accessKey": "root", "secretKey": "p:w"} {
			if string(data[key]) != want {
				t.Errorf("%s is %q, want %q", key, data[key], want)
			}
		}
	}
}

// What is not in the pods is bound by what is said of it: no Service is.
func TestBindingOfWhatIsElsewhere(t *testing.T) {
	binding := &schema.Binding{Type: "s3", Credential: "key",
		External: &schema.ExternalBinding{Endpoint: "endpoint", Account: "account"},
		Aliases: map[string]string{"endpoint": schema.BoundEndpoint, "accessKey": schema.BoundUsername,
			"secretKey": schema.BoundPassword}}
	for endpoint, want := range map[string]map[string]string{
		"https://s3.example.com": {"endpoint": "https://s3.example.com", "host": "s3.example.com", "port": "443",
			"uri": "https://me:p%2Fw@s3.example.com", "ca.crt": "certificate", "type": "s3"},
		"http://[fd00::7]:9000/": {"endpoint": "http://[fd00::7]:9000", "host": "fd00::7", "port": "9000",
			"accessKey": "me", "secretKey": "p/w"},
		"http://s3.example.com:80": {"endpoint": "http://s3.example.com:80", "port": "80", "username": "me",
			"password": "p/w"},
	} {
		data := ExternalBinding(binding, endpoint, "me", "p/w", []byte("certificate"))
		for key, value := range want {
			if string(data[key]) != value {
				t.Errorf("%s: %s is %q, want %q", endpoint, key, data[key], value)
			}
		}
	}
	for _, endpoint := range []string{"", "nowhere", "https://"} {
		if data := ExternalBinding(binding, endpoint, "me", "p", nil); data != nil {
			t.Errorf("%q is bound by %v", endpoint, data)
		}
	}
	for endpoint, want := range map[string]*platformv1.Endpoint{
		"https://s3.example.com": {Name: "s3", Host: "s3.example.com", Port: 443},
		"http://s3.example.com":  {Name: "s3", Host: "s3.example.com", Port: 80},
		"https://[fd00::1]:9000": {Name: "s3", Host: "fd00::1", Port: 9000},
		"":                       nil, "nowhere": nil, "ftp://a": nil, "https://": nil,
	} {
		if got := ExternalEndpoint(binding, endpoint); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: clients go to %+v, want %+v", endpoint, got, want)
		}
	}
	if _, has := ExternalBinding(binding, "https://a", "me", "p", nil)["ca.crt"]; has {
		t.Error("there is an authority where none was said")
	}
}
