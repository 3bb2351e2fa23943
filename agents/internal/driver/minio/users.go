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
	// parameterGrants: what the user may do in single buckets, as JSON; empty for nothing.
	parameterGrants = "grants"
	// parameterPolicies: names of policies beside that, with blanks between them.
	parameterPolicies = "policies"
)

// ownPolicies are MinIO's. Those of the second list are for administrators.
var (
	ownPolicies   = []string{"readonly", "readwrite", "writeonly"}
	adminPolicies = []string{"consoleAdmin", "diagnostics"}
)

// noSuchPolicy is what the server says of a policy that is not there.
const noSuchPolicy = "XMinioAdminNoSuchPolicy"

type policies struct{}

func (policies) check(_ *session, change driver.Change) error {
	if slices.Contains(ownPolicies, change.Name) || slices.Contains(adminPolicies, change.Name) {
		return problemf("the policy %q is MinIO's own: take another name", change.Name)
	}
	if change.Intent == driver.Delete {
		return nil
	}
	if strings.HasSuffix(change.Name, ofGrants) {
		return problemf("the policy %q is called like one of the grants of a user, which end with %s: take another name",
			change.Name, ofGrants)
	}
	if err := known(change.Parameters, parameterDocument); err != nil {
		return err
	}
	return s3Only(change.Parameters[parameterDocument])
}

func (policies) observe(ctx context.Context, s *session, query driver.Query) (*driver.State, error) {
	said, err := s.admin.policy(ctx, query.Name)
	if is(err, noSuchPolicy) {
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
	if err := known(change.Parameters, parameterEnabled, parameterGrants, parameterPolicies); err != nil {
		return err
	}
	if _, err := grantsOf(change.Parameters[parameterGrants]); err != nil {
		return err
	}
	for _, policy := range strings.Fields(change.Parameters[parameterPolicies]) {
		if slices.Contains(adminPolicies, policy) || strings.Contains(policy, ",") {
			return problemf("parameter %q has %q, which users cannot have: with it they would be past the engine",
				parameterPolicies, policy)
		}
		if policy == change.Name+ofGrants {
			return problemf("parameter %q has %q, which is what the user's own grants are: set %q in its place",
				parameterPolicies, policy, parameterGrants)
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
	own := query.Name + ofGrants
	grants, err := s.granted(ctx, own)
	if err != nil {
		return nil, err
	}
	has := strings.FieldsFunc(info.Policies, func(r rune) bool { return r == ',' || r == ' ' })
	if slices.Contains(has, own) != (grants != "") {
		grants = foreignGrants
	}
	has = slices.DeleteFunc(has, func(policy string) bool { return policy == own })
	state := &driver.State{Name: query.Name, Password: driver.SamePassword, Parameters: map[string]string{
		parameterEnabled: no, parameterGrants: grants, parameterPolicies: inOrder(has),
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

// granted are the grants that the policy of a name is; empty where it is not there.
func (s *session) granted(ctx context.Context, policy string) (string, error) {
	document, err := s.admin.policy(ctx, policy)
	switch {
	case is(err, noSuchPolicy):
		return "", nil
	case err != nil:
		return "", err
	}
	return grantsIn(document), nil
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
	p, own := change.Parameters, change.Name+ofGrants
	grants, err := grantsOf(p[parameterGrants])
	if err != nil {
		return err
	}
	policies, off := strings.Fields(p[parameterPolicies]), p[parameterEnabled] == no
	same := there != nil && there.Parameters[parameterPolicies] == inOrder(policies) &&
		there.Parameters[parameterGrants] == textOfGrants(grants)
	if len(grants) > 0 && !same {
		if err := s.admin.setPolicy(ctx, own, policyOfGrants(grants)); err != nil {
			return err
		}
	}
	if len(grants) > 0 {
		policies = append(policies, own)
	}
	if !same {
		key := change.Password
		if off {
			// MinIO gives policies only to users who can log in. This one can for a moment, with a key that nobody knows.
			key = rand.Text()
		}
		if err := s.admin.setUser(ctx, change.Name, key, userEnabled); err != nil {
			return err
		}
		if err := s.admin.setPolicies(ctx, change.Name, strings.ReplaceAll(inOrder(policies), " ", ",")); err != nil {
			return err
		}
	}
	if len(grants) == 0 && there != nil && there.Parameters[parameterGrants] != "" {
		if err := s.admin.removePolicy(ctx, own); err != nil && !is(err, noSuchPolicy) {
			return err
		}
	}
	status := userEnabled
	if off {
		status = userDisabled
	}
	return s.admin.setUser(ctx, change.Name, change.Password, status)
}

// remove removes what is granted first: what is left of a call that is cut short is a user who may do nothing.
func (users) remove(ctx context.Context, s *session, name string) error {
	grants, err := s.granted(ctx, name+ofGrants)
	if err != nil {
		return err
	}
	if grants != "" {
		// MinIO takes policies only from users who can log in: this one cannot, with a key that nobody knows.
		if err := s.admin.setUser(ctx, name, rand.Text(), userEnabled); err != nil {
			return err
		}
		if err := s.admin.setPolicies(ctx, name, ""); err != nil {
			return err
		}
		if err := s.admin.removePolicy(ctx, name+ofGrants); err != nil && !is(err, noSuchPolicy) {
			return err
		}
	}
	return s.admin.removeUser(ctx, name)
}

// inOrder is words with blanks between them; no other order says anything else.
func inOrder(words []string) string {
	slices.Sort(words)
	return strings.Join(slices.Compact(words), " ")
}
