// SPDX-License-Identifier: Apache-2.0

//go:build processes

package cluster_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zeroinfra/agents/internal/driver"
	"github.com/zeroinfra/agents/internal/driver/redis/cluster"
)

// newSecureGroup starts shards of one member each.
func newSecureGroup(t *testing.T, shards int, s *security) *group {
	g := &group{T: t}
	for range shards {
		g.shards = append(g.shards, []*server{startServer(&server{T: t, dir: t.TempDir(), secured: s})})
	}
	return g
}

// bringByName finds members by the name localhost.
func (g *group) bringByName(s *security, patience time.Duration) (cluster.Result, error) {
	g.Helper()
	config, err := driver.TLS(filepath.Join(s.dir, "ca.crt"))
	if err != nil {
		g.Fatal(err)
	}
	user := func() (string, string, error) { return "default", password, nil }
	network := cluster.NewNetwork(user, config)
	defer network.Close()
	shape := g.shape()
	for _, list := range append(shape.Shards, shape.Leaving) {
		for i := range list {
			list[i] = strings.Replace(list[i], "127.0.0.1", "localhost", 1)
		}
	}
	ctx, cancel := context.WithTimeout(g.Context(), 30*time.Second)
	defer cancel()
	return (&cluster.Bringer{Transport: network, Login: user, Patience: patience, Budget: 30 * time.Second}).Bring(ctx,
		shape)
}

// Where everything speaks TLS, members are found by name, and keys move by user name and password.
func TestTLS(t *testing.T) {
	t.Parallel()
	s := secure(t, "localhost")
	g := newSecureGroup(t, 4, s)
	if result, err := g.bringByName(s, 10*time.Second); err != nil || result.Phase != cluster.Done {
		t.Fatalf("got %+v, %v", result, err)
	}
	client := g.clients()
	for i := range 500 {
		if err := client.Set(t.Context(), fmt.Sprint(i), i, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	g.leaving, g.shards = g.shards[3:], g.shards[:3]
	if result, err := g.bringByName(s, 10*time.Second); err != nil || result.Phase != cluster.Done || result.Keys < 50 {
		t.Fatalf("got %+v, %v", result, err)
	}
	if keys := g.keys(); keys != 500 {
		t.Errorf("%d keys are there", keys)
	}
}

// A member whose certificate is for another name is not spoken to.
func TestTLSOfAnotherName(t *testing.T) {
	t.Parallel()
	s := secure(t, "elsewhere")
	g := newSecureGroup(t, 3, s)
	if result, err := g.bringByName(s, 0); err != nil || result.Phase != cluster.Waiting ||
		!strings.Contains(result.Reason, "not localhost") || result.Steps > 0 {
		t.Errorf("got %+v, %v", result, err)
	}
}
