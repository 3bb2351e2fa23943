// SPDX-License-Identifier: Apache-2.0

package kafkaparts

import "testing"

func TestQuotaName(t *testing.T) {
	for _, c := range []struct{ user, clientID, want string }{
		{"shop", "", "user/shop"}, {"*", "", "user/*"}, {"", "importer", "client/importer"},
		{"shop", "importer", "user/shop/client/importer"},
	} {
		if got := QuotaName(c.user, c.clientID); got != c.want {
			t.Errorf("the quota of user %q and client %q is %q, want %q", c.user, c.clientID, got, c.want)
		}
	}
}
