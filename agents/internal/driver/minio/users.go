// SPDX-License-Identifier: Apache-2.0

package minio

import (
	"cmp"
	"context"
	"crypto/rand"
	"slices"
	"strings"

	"github.com/zeroinfra/agents/internal/driver"
)

// parameterDocument of a policy: what it allows, as JSON.
const parameterDocument = "document"

// Parameters of a user.
const (
	// parameterEnabled: "no" for one that cannot log in.
	parameterEnabled = "enabled"
	// parameterPolicies: names of policies with blanks between them.
	parameterPolicies = "policies"
)

// ownPolicies are MinIO's. Those of the second list are for administrators.
var (
	ownPolicies   = []string{"readonly", "readwrite", "writeonly"}
	adminPolicies = []string{"consoleAdmin", "diagnostics"}
)

type policies struct{}

func (policies) check(_ *session, change driver.Change) error {
	if slices.Contains(ownPolicies, change.Name) || slices.Contains(adminPolicies, change.Name) {
		return problemf("the policy %q is MinIO's own: take another name", change.Name)
	}
	if change.Intent == driver.Delete {
		return nil
	}
	if err := known(change.Parameters, parameterDocument); err != nil {
		return err
	}
	return s3Only(change.Parameters[parameterDocument])
}

func (policies) observe(ctx context.Context, s *session, query driver.Query) (*driver.State, error) {
	said, err := s.admin.policy(ctx, query.Name)
	if is(err, "XMinioAdminNoSuchPolicy") {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	document, err := canonical(said)
	if err != nil {
		return nil, err
	}
	return &driver.State{Name: query.Name, Password: driver.SamePassword,
		Parameters: map[string]string{parameterDocument: document}}, nil
}

func (policies) put(ctx context.Context, s *session, change driver.Change, _ *driver.State) error {
	return s.admin.setPolicy(ctx, change.Name, change.Parameters[parameterDocument])
}

func (policies) remove(ctx context.Context, s *session, name string) error {
	return s.admin.removePolicy(ctx, name)
}

type users struct{}

func (users) check(s *session, change driver.Change) error {
	if change.Name == s.options.Username {
		return problemf("the user %q is the instance's own: take another name", change.Name)
	}
	if change.Intent == driver.Delete {
		return nil
	}
	if err := known(change.Parameters, parameterEnabled, parameterPolicies); err != nil {
		return err
	}
	for _, policy := range strings.Fields(change.Parameters[parameterPolicies]) {
		if slices.Contains(adminPolicies, policy) || strings.Contains(policy, ",") {
			return problemf("parameter %q has %q, which users cannot have: with it they would be past the engine",
				parameterPolicies, policy)
		}
	}
	return oneOf(parameterEnabled, cmp.Or(change.Parameters[parameterEnabled], yes), yes, no)
}

func (users) observe(ctx context.Context, s *session, query driver.Query) (*driver.State, error) {
	info, err := s.admin.user(ctx, query.Name)
	if is(err, "XMinioAdminNoSuchUser") {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	state := &driver.State{Name: query.Name, Password: driver.SamePassword, Parameters: map[string]string{
		parameterEnabled: no, parameterPolicies: inOrder(
			strings.FieldsFunc(info.Policies, func(r rune) bool { return r == ',' || r == ' ' })),
	}}
	if info.Status != userEnabled {
		// Nobody can say whether the key of one that cannot log in is the same; it is set when it can.
		return state, nil
	}
	state.Parameters[parameterEnabled] = yes
	if query.Password != "" {
		state.Password, err = s.compare(ctx, query)
	}
	return state, err
}

// compare logs in as a user: MinIO tells no keys.
func (s *session) compare(ctx context.Context, query driver.Query) (driver.Password, error) {
	client, err := s.as(query.Name, query.Password)
	if err != nil {
		return "", err
	}
	_, err = client.ListBuckets(ctx)
	switch {
	case is(err, "SignatureDoesNotMatch"):
		return driver.OtherPassword, nil
	case err == nil, is(err, "AccessDenied", "InvalidAccessKeyId"):
		// It may do too little for this very call, or has been turned off or removed meanwhile.
		return driver.SamePassword, nil
	}
	return "", err
}

func (users) put(ctx context.Context, s *session, change driver.Change, there *driver.State) error {
	p := change.Parameters
	wanted, off := inOrder(strings.Fields(p[parameterPolicies])), p[parameterEnabled] == no
	if there == nil || there.Parameters[parameterPolicies] != wanted {
		key := change.Password
		if off {
			// MinIO gives policies only to users who can log in. This one can for a moment, with a key that nobody knows.
			key = rand.Text()
		}
		if err := s.admin.setUser(ctx, change.Name, key, userEnabled); err != nil {
			return err
		}
		if err := s.admin.setPolicies(ctx, change.Name, strings.ReplaceAll(wanted, " ", ",")); err != nil {
			return err
		}
	}
	if off {
		return s.admin.setUser(ctx, change.Name, change.Password, userDisabled)
	}
	return s.admin.setUser(ctx, change.Name, change.Password, userEnabled)
}

func (users) remove(ctx context.Context, s *session, name string) error {
	return s.admin.removeUser(ctx, name)
}

// inOrder is words with blanks between them; no other order says anything else.
func inOrder(words []string) string {
	slices.Sort(words)
	return strings.Join(slices.Compact(words), " ")
}
