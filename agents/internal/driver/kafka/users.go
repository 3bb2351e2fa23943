// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/IBM/sarama"

	"github.com/zeroinfra/agents/internal/driver"
)

// parameterIterations is how often a password is hashed: what a login costs, and what guessing the password of a stolen
// credential costs.
const parameterIterations = "iterations"

const (
	// defaultIterations and the bounds are Kafka's own.
	defaultIterations = 4096
	minIterations     = 4096
	mostIterations    = 16384
	// logins is how many passwords are tried at a time.
	logins = 4
)

// codeNoCredential is RESOURCE_NOT_FOUND, what Kafka says of a user without one; the library has no name for it.
const codeNoCredential sarama.KError = 91

// users are SCRAM-SHA-512 credentials. A user may have rules and quotas without one.
type users struct{}

func (users) check(s *session, change driver.Change) error {
	if change.Name == s.way.username {
		return fmt.Errorf("the user %q is the instance's own: take another name", change.Name)
	}
	if change.Intent == driver.Delete {
		return nil
	}
	if err := known(change.Parameters, parameterIterations); err != nil {
		return err
	}
	if change.Password == "" {
		return errors.New("a user needs a password")
	}
	_, err := iterationsOf(change.Parameters)
	return err
}

func iterationsOf(parameters map[string]string) (int32, error) {
	n, err := strconv.ParseInt(cmp.Or(parameters[parameterIterations], strconv.Itoa(defaultIterations)), 10, 32)
	if err != nil || n < minIterations || n > mostIterations {
		return 0, fmt.Errorf("parameter %q is %q: it must be a whole number from %d to %d", parameterIterations,
			parameters[parameterIterations], minIterations, mostIterations)
	}
	return int32(n), nil
}

// observe tries the passwords: Kafka tells neither them nor what they are checked by.
func (users) observe(s *session, queries []driver.Query) ([]driver.State, error) {
	names := make([]string, len(queries))
	for i, query := range queries {
		names[i] = query.Name
	}
	credentials, err := s.credentials(names)
	if err != nil {
		return nil, err
	}
	found, errs := make([]*driver.State, len(queries)), make([]error, len(queries))
	var group sync.WaitGroup
	slots := make(chan struct{}, logins)
	for i, query := range queries {
		iterations, there := credentials[query.Name]
		if !there {
			continue
		}
		found[i] = &driver.State{Name: query.Name, Password: driver.SamePassword,
			Parameters: map[string]string{parameterIterations: strconv.Itoa(int(iterations))}}
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			found[i].Password, errs[i] = s.compare(query)
		})
	}
	group.Wait()
	var states []driver.State
	for _, state := range found {
		if state != nil {
			states = append(states, *state)
		}
	}
	return states, errors.Join(errs...)
}

// compare logs in as a user. Where the listener of the driver asks for no login nobody can say whether the password is
// another one.
func (s *session) compare(query driver.Query) (driver.Password, error) {
	if query.Password == "" || s.way.username == "" {
		return driver.SamePassword, nil
	}
	err := s.way.as(query.Name, query.Password).use(s.ctx, func(*session) error { return nil })
	switch {
	case err == nil:
		return driver.SamePassword, nil
	case errors.Is(err, sarama.ErrSASLAuthenticationFailed):
		return driver.OtherPassword, nil
	}
	return "", err
}

// credentials are the iterations of SCRAM-SHA-512 credentials, by user.
func (s *session) credentials(names []string) (map[string]int32, error) {
	credentials, request := map[string]int32{}, &sarama.DescribeUserScramCredentialsRequest{}
	if len(names) == 0 {
		// To Kafka that would be all users.
		return credentials, nil
	}
	for _, name := range names {
		request.DescribeUsers = append(request.DescribeUsers, sarama.DescribeUserScramCredentialsRequestUser{Name: name})
	}
	s.renew()
	response, err := s.local.DescribeUserScramCredentials(request)
	if err != nil {
		return nil, fmt.Errorf("cannot read the users: %w", err)
	}
	if response.ErrorCode != sarama.ErrNoError {
		return nil, fmt.Errorf("cannot read the users: %w", said(response.ErrorCode, response.ErrorMessage))
	}
	for _, result := range response.Results {
		if result.ErrorCode == codeNoCredential {
			continue
		}
		if result.ErrorCode != sarama.ErrNoError {
			return nil, fmt.Errorf("cannot read user %q: %w", result.User, said(result.ErrorCode, result.ErrorMessage))
		}
		for _, credential := range result.CredentialInfos {
			if credential.Mechanism == sarama.SCRAM_MECHANISM_SHA_512 {
				credentials[result.User] = credential.Iterations
			}
		}
	}
	return credentials, nil
}

// change sends what passwords are checked by, and never a password.
func (users) change(s *session, changes []driver.Change, problems driver.Problems) error {
	request := &sarama.AlterUserScramCredentialsRequest{}
	for _, change := range changes {
		if change.Intent == driver.Delete {
			request.Deletions = append(request.Deletions,
				sarama.AlterUserScramCredentialsDelete{Name: change.Name, Mechanism: sarama.SCRAM_MECHANISM_SHA_512})
			continue
		}
		// It has been checked.
		iterations, _ := iterationsOf(change.Parameters)
		request.Upsertions = append(request.Upsertions,
			sarama.AlterUserScramCredentialsUpsert{Name: change.Name, Mechanism: sarama.SCRAM_MECHANISM_SHA_512,
				Iterations: iterations, Salt: newSalt(), Password: []byte(change.Password)})
	}
	lead, err := s.lead()
	if err != nil {
		return err
	}
	response, err := lead.AlterUserScramCredentials(request)
	if err != nil {
		return fmt.Errorf("cannot change users: %w", err)
	}
	for _, result := range response.Results {
		if result.ErrorCode == codeNoCredential {
			// It is gone already.
			continue
		}
		if err := note(problems, result.User, said(result.ErrorCode, result.ErrorMessage)); err != nil {
			return err
		}
	}
	return settle(s.ctx, func() (string, error) { return s.unshownUser(without(changes, problems)) })
}

// unshownUser is one that the broker of the pod does not know as it is to be; empty when there is none.
func (s *session) unshownUser(changes []driver.Change) (string, error) {
	var queries []driver.Query
	for _, change := range changes {
		queries = append(queries, change.Query)
	}
	states, err := users{}.observe(s, queries)
	if err != nil {
		return "", err
	}
	there := map[string]driver.State{}
	for _, state := range states {
		there[state.Name] = state
	}
	for _, change := range changes {
		state, is := there[change.Name]
		// It has been checked.
		iterations, _ := iterationsOf(change.Parameters)
		same := state.Password == driver.SamePassword &&
			state.Parameters[parameterIterations] == strconv.Itoa(int(iterations))
		if is == (change.Intent == driver.Delete) || is && !same {
			return change.Name, nil
		}
	}
	return "", nil
}
