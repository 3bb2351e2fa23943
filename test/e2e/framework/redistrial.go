// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// redisProbe has the server take a write, and returns its time: seconds, and microseconds of the next.
const redisProbe = "local t=redis.call('TIME') redis.call('SET',KEYS[1],t[1]) return t"

// redisSession is one session of a client that was cut off with the server.
const redisSession = `IFS= read -r REDISCLI_AUTH
export REDISCLI_AUTH
(
  while [ ! -e "/tmp/$1.stop" ]; do
    echo "EVAL \"local t=redis.call('TIME') redis.call('SET',KEYS[1],t[1])" \
      "return 'p '..t[1]..' '..t[2]..' '..ARGV[1]\" 1 probe:session $3"
    sleep 0.1
  done | redis-cli -h "$2" 2>/dev/null | grep '^p ' >"/tmp/$1.session"
  : >"/tmp/$1.ended"
) </dev/null >/dev/null 2>&1 &
`

// redisWriter is one connection to a Redis.
type redisWriter struct{ client *redis.Client }

// redisClient connects when it is first used, and tries nothing twice.
func redisClient(to Target) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: to.address, Username: to.Username, Password: to.Password, Dialer: to.Dial,
		MaxRetries: -1, DialerRetries: 1, PoolSize: 1, ReadTimeout: ClientTimeout, WriteTimeout: ClientTimeout,
		ContextTimeoutEnabled: true,
		Protocol:              2, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

func connectRedis(ctx context.Context, to Target) (session, error) {
	s := redisWriter{redisClient(to)}
	if err := s.client.Ping(ctx).Err(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// write sends both commands on one connection: WAIT on another one would say nothing about the write.
func (s redisWriter) write(ctx context.Context, number int64) error {
	var had *redis.Cmd
	if _, err := s.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.Set(ctx, keyOf(number), number, 0)
		had = p.Do(ctx, "WAIT", 1, ackTimeout.Milliseconds())
		return nil
	}); err != nil {
		return err
	}
	if replicas, err := had.Int(); err != nil || replicas < 1 {
		return errors.Join(errors.New("no replica has it"), err)
	}
	return nil
}

func (s redisWriter) close() { _ = s.client.Close() }

func probeRedis(ctx context.Context, to Target) (time.Time, error) {
	client := redisClient(to)
	defer client.Close()
	at, err := client.Eval(ctx, redisProbe, []string{"probe:" + to.address}).StringSlice()
	if err != nil {
		return time.Time{}, err
	}
	if len(at) != 2 {
		return time.Time{}, fmt.Errorf("the server's time is %q", at)
	}
	return serverTime(at[0], at[1])
}

// serverTime is the time of seconds since 1970 and microseconds of the next.
func serverTime(seconds, microseconds string) (time.Time, error) {
	s, err1 := strconv.ParseInt(seconds, 10, 64)
	us, err2 := strconv.ParseInt(microseconds, 10, 64)
	return time.Unix(s, us*1000), errors.Join(err1, err2)
}

func keyOf(number int64) string { return fmt.Sprintf("w:%d", number) }

func keptInRedis(ctx context.Context, to Target, numbers []int64) (map[int64]bool, error) {
	client := redisClient(to)
	defer client.Close()
	have := map[int64]bool{}
	for some := range slices.Chunk(numbers, ReadBackScript) {
		keys := make([]string, 0, len(some))
		for _, number := range some {
			keys = append(keys, keyOf(number))
		}
		values, err := client.MGet(ctx, keys...).Result()
		if err != nil {
			return nil, err
		}
		for n, value := range values {
			if value == strconv.FormatInt(some[n], 10) {
				have[some[n]] = true
			}
		}
	}
	return have, nil
}
