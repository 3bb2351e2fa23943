// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// writerScript writes keys with growing numbers through the Service and prints each number that the server acknowledged: the
// answer to a write is the number itself. A connection carries that many writes at most, so that others follow soon, as of many
// clients, also when the server is gone. A write that was not acknowledged is not counted, and its number not used again.
const writerScript = `IFS= read -r REDISCLI_AUTH
export REDISCLI_AUTH
i=0
while [ ! -e "$1" ]; do
  seq $((i+1)) $((i+20)) | sed "s/.*/EVAL \"redis.call('SET',KEYS[1],ARGV[1]) return ARGV[1]\" 1 $4:& &/" |
    timeout 2 redis-cli -h "$2" -p "$3" 2>/dev/null
  i=$((i+20))
done`

// readBack is how many keys are read at once.
const readBack = 500

// writer writes to an instance without pause. It keeps, outside the cluster, what was acknowledged and when.
type writer struct {
	*instance
	stopFile string
	// keys begin so: another writer's that are left would pass for its own.
	prefix  string
	done    chan error
	numbers []int
	times   []time.Time
}

// judge reads back what was acknowledged, once the writer has ended, and has the test fail where any of that is lost, or the longest time
// between two acknowledged writes is beyond the limit.
func (w *writer) judge(name string, limit time.Duration) {
	w.Helper()
	w.verdict().hold(w.T, name, limit)
}

// judged is judge for a trial of a fault, which goes to the table of all.
func (w *writer) judged(fault string, limit time.Duration) {
	w.Helper()
	v := w.verdict()
	v.tell(fault)
	v.hold(w.T, fault, limit)
}

// verdict is what the writer has seen. Nobody else takes writes, so that no write was taken as long as none was acknowledged.
func (w *writer) verdict() verdict {
	w.Helper()
	gap := longestGap(w.times)
	return verdict{acknowledged: len(w.numbers), lost: w.lost(), gap: gap, vacancy: gap}
}

// startWriter begins to write and returns once the first write was acknowledged.
func (i *instance) startWriter() *writer {
	i.Helper()
	id := strconv.FormatInt(time.Now().UnixNano(), 36)
	w := &writer{instance: i, stopFile: "/tmp/stop-" + id, prefix: "w:" + id, done: make(chan error, 1)}
	a := i.account()
	reader, output := io.Pipe()
	first := make(chan struct{})
	read := make(chan struct{})
	go func() {
		defer close(read)
		for scanner := bufio.NewScanner(reader); scanner.Scan(); {
			if number, err := strconv.Atoi(scanner.Text()); err == nil {
				w.numbers, w.times = append(w.numbers, number), append(w.times, time.Now())
				if len(w.numbers) == 1 {
					close(first)
				}
			}
		}
	}()
	command := []string{"sh", "-c", writerScript, "writer", w.stopFile, a.host, a.port, w.prefix}
	pod := i.clientPod()
	go func() {
		err := stream(context.WithoutCancel(i.ctx), i.space.name, pod, clientName, command, strings.NewReader(a.password+"\n"), output, io.Discard)
		err = errors.Join(err, output.Close())
		<-read
		w.done <- err
	}()
	select {
	case <-first:
	case err := <-w.done:
		i.Fatalf("the writer ended before its first write: %v", err)
	case <-time.After(settleIn):
		i.Fatal("no write was acknowledged")
	}
	return w
}

// stop ends the writer.
func (w *writer) stop() {
	w.Helper()
	if _, err := run(w.ctx, w.space.name, w.clientPod(), clientName, "", "touch", w.stopFile); err != nil {
		w.Fatal(err)
	}
	if err := <-w.done; err != nil {
		w.Fatalf("the writer failed: %v", err)
	}
}

// lost counts the acknowledged writes that cannot be read back.
func (w *writer) lost() int {
	w.Helper()
	lost := 0
	for start := 0; start < len(w.numbers); start += readBack {
		chunk := w.numbers[start:min(start+readBack, len(w.numbers))]
		arguments := []string{"MGET"}
		for _, number := range chunk {
			arguments = append(arguments, fmt.Sprintf("%s:%d", w.prefix, number))
		}
		values := strings.Split(w.must(arguments...), "\n")
		if len(values) != len(chunk) {
			w.Fatalf("MGET of %d keys gave %d values", len(chunk), len(values))
		}
		for n, number := range chunk {
			if values[n] != strconv.Itoa(number) {
				lost++
			}
		}
	}
	return lost
}

// resumed waits until a write was acknowledged after now.
func (w *writer) resumed() {
	w.Helper()
	w.eventually(settleIn, "a write is acknowledged again", func() error {
		_, err := w.do("SET", "resumed", "yes")
		return err
	})
}
