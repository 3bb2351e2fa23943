// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"os"
	"strings"
	"testing"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/internal/plugin/placeholder"
)

const externalFolder = "../../../storage-operator/plugins/s3-external/1.0.0"

// withStorage is s3-external with pairs of texts replaced.
func withStorage(t *testing.T, changes ...string) (*Bundle, []LoadError) {
	t.Helper()
	sources, errs := LoadFolder(os.DirFS(externalFolder), "s3-external")
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	text := sources[PartComponents].Data[components]
	for i := 0; i < len(changes); i += 2 {
		if !strings.Contains(text, changes[i]) {
			t.Fatalf("there is no %q in %s", changes[i], text)
		}
		text = strings.Replace(text, changes[i], changes[i+1], 1)
	}
	sources[PartComponents].Data[components] = text
	return Load(sources)
}

// TestADriverIsToldOfWhatIsNotInThePod: by parameters, and by credentials of which it has the authority only where a
// user supplies it.
func TestADriverIsToldOfWhatIsNotInThePod(t *testing.T) {
	b, errs := withStorage(t)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for _, supplied := range [][]string{nil, {"storage-ca"}} {
		p, err := b.RenderPlan("keeper", placeholder.Values{
			App:    placeholder.App{Name: "a", Namespace: "b", Version: "2006.3", Topology: "external", Supplied: supplied},
			Params: map[string]string{"endpoint": "https://s3.example.com", "region": "eu-1", "addressing": "path"},
		})
		if err != nil {
			t.Fatal(err)
		}
		d := p.Driver
		if d.Address != "" || d.Username != "" || d.Settings[plan.SettingEndpoint] != "https://s3.example.com" ||
			d.Settings[plan.SettingRegion] != "eu-1" || d.Account.Credential != "access-key" ||
			d.Password.Credential != "secret-key" {
			t.Errorf("got %+v", d)
		}
		if (d.CA != nil) != (len(supplied) > 0) {
			t.Errorf("with %v supplied the authority is %v", supplied, d.CA)
		}
	}
}

func TestWhatIsNotInThePodIsRefused(t *testing.T) {
	const driver, binding = "      settings: [endpoint, region, addressing]\n",
		"  external: {endpoint: endpoint, account: access-key, ca: storage-ca}\n"
	for want, changes := range map[string][]string{
		"has address or tls, which are for a process in the pod": {driver, driver + "      address: 127.0.0.1:9000\n"},
		"must be addressing, endpoint, region":                   {driver, "      settings: [endpoint, region]\n"},
		`names the credential of the component ""`:               {"      account: access-key\n", ""},
		`names the credential of the component "nothing"`:        {"      ca: storage-ca\n", "      ca: nothing\n"},
		`names the credential of the component "storage-ca"`: {"      account: access-key\n",
			"      account: storage-ca\n"},
		"has no credential: add that of the account": {"      credential: secret-key\n", ""},
		"has no address": {"      protocol: s3\n" + driver +
			"      account: access-key\n      credential: secret-key\n      ca: storage-ca\n",
			"      protocol: minio\n      credential: secret-key\n"},
		"has settings, account or ca, which are for what is not": {"      protocol: s3\n",
			"      protocol: minio\n      address: 127.0.0.1:9000\n"},
		"which are of pods: take them out": {binding, binding + "  port: s3\n"},
		`names the parameter "where"`: {binding,
			"  external: {endpoint: where, account: access-key}\n"},
		`names the credential "nobody"`: {binding,
			"  external: {endpoint: endpoint, account: nobody}\n"},
		`names the credential "storage-ca"`: {binding,
			"  external: {endpoint: endpoint, account: storage-ca}\n"},
		"has external and no credential": {
			"  credential: secret-key\n  aliases: {endpoint: endpoint, accessKey: username, secretKey: password}\n", ""},
		"has no port: add that of the Service":                   {binding, ""},
		"is a key that every binding can have: take another one": {"aliases: {endpoint:", "aliases: {host: host, endpoint:"},
	} {
		_, errs := withStorage(t, changes...)
		said := ""
		for _, err := range errs {
			said += err.Message + "\n"
		}
		if !strings.Contains(said, want) {
			t.Errorf("got %q, want %q", said, want)
		}
	}
}
