// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestWebhookFlags(t *testing.T) {
	for name, test := range map[string]struct {
		arguments []string
		works     bool
		host      string
		port      int
	}{
		"none":     {nil, true, "", 0},
		"by chart": {[]string{"--webhook-configuration=release.system"}, true, "release-webhook.system.svc", 9443},
		"default": {[]string{"--webhook-configuration=database-operator"}, true, "database-operator-webhook.system.svc",
			9443},
		"elsewhere": {[]string{"--webhook-configuration=a", "--webhook-host=localhost",
			"--webhook-bind-address=127.0.0.1:10443"}, true, "localhost", 10443},
		"no port":    {[]string{"--webhook-configuration=a", "--webhook-bind-address=127.0.0.1"}, false, "", 0},
		"bad port":   {[]string{"--webhook-bind-address=:https"}, false, "", 0},
		"port 0":     {[]string{"--webhook-bind-address=:0"}, false, "", 0},
		"no name":    {[]string{"--webhook-host=a b"}, false, "", 0},
		"an address": {[]string{"--webhook-host=https://a"}, false, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			var w webhookSettings
			flags := pflag.NewFlagSet("", pflag.ContinueOnError)
			w.bind(flags)
			if err := flags.Parse(test.arguments); err != nil {
				t.Fatal(err)
			}
			if err := w.check(); (err == nil) != test.works {
				t.Fatalf("got %v", err)
			}
			a := w.admission(Options{}, "system")
			secret := strings.TrimSuffix(w.configuration, ".system") + "-webhook"
			switch {
			case !test.works:
			case test.host == "" && a != nil:
				t.Errorf("a webhook is set up unasked: %+v", a)
			case test.host != "" && (a == nil || a.Host != test.host || a.Port != test.port || a.Secret != secret):
				t.Errorf("got %+v", a)
			}
		})
	}
}
