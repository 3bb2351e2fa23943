// SPDX-License-Identifier: Apache-2.0

// Package kafka is the driver for Apache Kafka from 3.9 on, in KRaft mode or with ZooKeeper. It keeps topics with their
// access rules, quotas and SCRAM users, and answers queries about the cluster: its quorum, brokers, reassignments,
// configuration and consumer groups.
//
// It speaks with the broker of its pod, which hands on to the controller what is the controller's business. Other
// brokers are asked only what they alone know. Many objects go in one request.
package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"github.com/rcrowley/go-metrics"

	"github.com/zeroinfra/agents/internal/driver"
)

// Kinds of objects.
const (
	KindTopic = "topic"
	// KindQuota limits user/<name>, client/<id> or user/<name>/client/<id>; a name or id of * is the default for those
	// that have none.
	KindQuota = "quota"
	// KindUser is a SCRAM-SHA-512 credential.
	KindUser = "user"
)

const (
	// requestTimeout is what the cluster has for one request.
	requestTimeout = 30 * time.Second
	// settleTime is how long the broker of the pod may take to learn what the controller has acknowledged. It makes the
	// folders of hundreds of partitions before it looks at the next change.
	settleTime = 2 * time.Minute
	// settlePause is between the first two looks at it, and settlePauseMost the longest one: each is twice as long as the
	// last.
	settlePause     = 20 * time.Millisecond
	settlePauseMost = time.Second
)

// Driver is a driver.Driver for one cluster. It keeps no connection: a call makes its own, with the password of that
// moment.
type Driver struct{ reach func() (way, error) }

// uncounted has the library count nothing: it would wake up every five seconds for it.
var uncounted sync.Once

// newDriver returns a driver that gets to its cluster so.
func newDriver(reach func() (way, error)) *Driver {
	uncounted.Do(func() { metrics.UseNilMetrics = true })
	return &Driver{reach: reach}
}

// keeper observes and changes objects of one kind.
type keeper interface {
	observe(s *session, queries []driver.Query) ([]driver.State, error)
	// check says what is wrong with a change before anything is asked of the cluster.
	check(s *session, change driver.Change) error
	// change makes changes that have been checked, and notes problems of single ones.
	change(s *session, changes []driver.Change, problems driver.Problems) error
}

var keepers = map[string]keeper{KindTopic: topics{}, KindQuota: quotas{}, KindUser: users{}}

// Kinds implements driver.Driver.
func (d *Driver) Kinds() []string { return slices.Sorted(maps.Keys(keepers)) }

// Observe implements driver.Driver.
func (d *Driver) Observe(ctx context.Context, kind string, queries []driver.Query) (states []driver.State, err error) {
	k, ok := keepers[kind]
	if !ok {
		return nil, unknown(kind)
	}
	err = d.with(ctx, func(s *session) error {
		states, err = k.observe(s, queries)
		return err
	})
	return states, err
}

// Change implements driver.Driver.
func (d *Driver) Change(ctx context.Context, kind string, changes []driver.Change) (driver.Problems, error) {
	k, ok := keepers[kind]
	if !ok {
		return nil, unknown(kind)
	}
	problems := driver.Problems{}
	err := d.with(ctx, func(s *session) error {
		var sound []driver.Change
		for _, change := range changes {
			if err := k.check(s, change); err != nil {
				problems[change.Name] = err.Error()
				continue
			}
			sound = append(sound, change)
		}
		if len(sound) == 0 {
			return nil
		}
		return k.change(s, sound, problems)
	})
	if err != nil {
		return nil, err
	}
	return problems, nil
}

func unknown(kind string) error { return fmt.Errorf("the driver for Kafka knows no %q", kind) }

// notYet are codes of a cluster that cannot do what is asked now, and may later: they refuse no single object.
var notYet = []sarama.KError{
	sarama.ErrBrokerNotAvailable, sarama.ErrConsumerCoordinatorNotAvailable, sarama.ErrLeaderNotAvailable,
	sarama.ErrNetworkException,
	sarama.ErrNotController, sarama.ErrNotCoordinatorForConsumer, sarama.ErrNotLeaderForPartition,
	sarama.ErrOffsetsLoadInProgress,
	sarama.ErrRequestTimedOut, sarama.ErrStaleBrokerEpoch, sarama.ErrThrottlingQuotaExceeded,
}

// answer is what the cluster says of one object.
type answer struct {
	code     sarama.KError
	sentence string
}

// said is an answer; a nil text is none.
func said(code sarama.KError, text *string) answer {
	if text == nil {
		return answer{code: code}
	}
	return answer{code, *text}
}

// Error implements error.
func (a answer) Error() string {
	sentence := a.sentence
	if sentence == "" {
		sentence = strings.TrimPrefix(a.code.Error(), "kafka server: ")
	}
	return "Kafka refuses it: " + strings.TrimSuffix(sentence, ".")
}

// note puts a refusal among the problems. An answer that refuses nothing, such as that of a controller that is being
// elected, is an error of the call.
func note(problems driver.Problems, name string, a answer) error {
	switch {
	case a.code == sarama.ErrNoError:
		return nil
	case slices.Contains(notYet, a.code):
		return fmt.Errorf("cannot change %q now: %w", name, a)
	}
	if problems[name] == "" {
		problems[name] = a.Error()
	}
	return nil
}

// without leaves out changes that have a problem already.
func without(changes []driver.Change, problems driver.Problems) []driver.Change {
	return slices.DeleteFunc(slices.Clone(changes), func(change driver.Change) bool { return problems[change.Name] != "" })
}

// known refuses parameters that an object has no use for.
func known(parameters map[string]string, names ...string) error {
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		if !slices.Contains(names, name) {
			return fmt.Errorf("parameter %q is not known: known are %s", name, strings.Join(names, ", "))
		}
	}
	return nil
}

// errUnsettled says that the time for settling is over.
var errUnsettled = errors.New("the broker of this pod does not show it yet: ask again")

// settle waits until the broker of the pod shows what was changed: brokers learn of it a moment after the controller
// has acknowledged it. What is missing is empty when all is shown.
func settle(ctx context.Context, look func() (missing string, err error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, settleTime, errUnsettled)
	defer cancel()
	for pause := settlePause; ; pause = min(2*pause, settlePauseMost) {
		missing, err := look()
		if missing == "" || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the controller has acknowledged a change of %q: %w", missing, context.Cause(ctx))
		case <-time.After(pause):
		}
	}
}
