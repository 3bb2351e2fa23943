// SPDX-License-Identifier: Apache-2.0

package framework

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

// writerScript writes keys with growing numbers through the Service and prints each number that the server
// acknowledged: the answer to a write is the number itself. A connection carries that many writes at most, so that
// others follow soon, as of many clients, also when the server is gone. A write that was not acknowledged is not
// counted, and its number not used again.
const writerScript = `IFS= read -r REDISCLI_AUTH
export REDISCLI_AUTH
i=0
while [ ! -e "$1" ]; do
  seq $((i+1)) $((i+20)) | sed "s/.*/EVAL \"redis.call('SET',KEYS[1],ARGV[1]) return ARGV[1]\" 1 $4:& &/" |
    timeout 2 redis-cli -h "$2" -p "$3" 2>/dev/null
  i=$((i+20))
done`

// ReadBackScript is how many keys are read at once.
const ReadBackScript = 500

// Writer writes to an instance without pause. It keeps, outside the cluster, what was acknowledged and when.
type Writer struct {
	*Instance
	stopFile string
	// Prefix is how keys begin: another writer's that are left would pass for its own.
	Prefix  string
	done    chan error
	Numbers []int
	times   []time.Time
}

// StopAndVerify reads back what was acknowledged, once the writer has ended, and has the test fail where any of that is
// lost, or the longest time between two acknowledged writes is beyond the limit.
func (w *Writer) StopAndVerify(name string, limit time.Duration) {
	w.Helper()
	w.verdict().ExpectWithin(w.T, name, limit)
}

// StopAndRecord is StopAndVerify for a trial of a fault, which goes to the table of all.
func (w *Writer) StopAndRecord(fault string, limit time.Duration) {
	w.Helper()
	v := w.verdict()
	v.Record(fault)
	v.ExpectWithin(w.T, fault, limit)
}

// verdict is what the writer has seen. Nobody else takes writes, so that no write was taken as long as none was
// acknowledged.
func (w *Writer) verdict() Verdict {
	w.Helper()
	gap := LongestGap(w.times)
	return Verdict{Acknowledged: len(w.Numbers), Lost: w.Lost(), Gap: gap, Vacancy: gap}
}

// StartWriter begins to write and returns once the first write was acknowledged.
func (i *Instance) StartWriter() *Writer {
	i.Helper()
	id := strconv.FormatInt(time.Now().UnixNano(), 36)
	w := &Writer{Instance: i, stopFile: "/tmp/stop-" + id, Prefix: "w:" + id, done: make(chan error, 1)}
	a := i.Account()
	reader, output := io.Pipe()
	first := make(chan struct{})
	read := make(chan struct{})
	go func() {
		defer close(read)
		for scanner := bufio.NewScanner(reader); scanner.Scan(); {
			if number, err := strconv.Atoi(scanner.Text()); err == nil {
				w.Numbers, w.times = append(w.Numbers, number), append(w.times, time.Now())
				if len(w.Numbers) == 1 {
					close(first)
				}
			}
		}
	}()
	command := []string{"sh", "-c", writerScript, "writer", w.stopFile, a.Host, a.Port, w.Prefix}
	pod := i.ClientPod()
	go func() {
		err := Exec(context.WithoutCancel(i.Ctx), i.Namespace.Name, pod, ClientPodName, command,
			strings.NewReader(a.Password+"\n"), output, io.Discard)
		err = errors.Join(err, output.Close())
		<-read
		w.done <- err
	}()
	select {
	case <-first:
	case err := <-w.done:
		i.Fatalf("the writer ended before its first write: %v", err)
	case <-time.After(SettleTimeout):
		i.Fatal("no write was acknowledged")
	}
	return w
}

// Stop ends the writer.
func (w *Writer) Stop() {
	w.Helper()
	if _, err := Run(w.Ctx, w.Namespace.Name, w.ClientPod(), ClientPodName, "", "touch", w.stopFile); err != nil {
		w.Fatal(err)
	}
	if err := <-w.done; err != nil {
		w.Fatalf("the writer failed: %v", err)
	}
}

// Lost counts the acknowledged writes that cannot be read back.
func (w *Writer) Lost() int {
	w.Helper()
	return w.Instance.Lost(w.Prefix, w.Numbers)
}

// Lost counts the numbers that keys of this prefix, a colon and the number do not have as their values.
func (i *Instance) Lost(prefix string, numbers []int) int {
	i.Helper()
	lost := 0
	for start := 0; start < len(numbers); start += ReadBackScript {
		chunk := numbers[start:min(start+ReadBackScript, len(numbers))]
		arguments := []string{"MGET"}
		for _, number := range chunk {
			arguments = append(arguments, fmt.Sprintf("%s:%d", prefix, number))
		}
		values := strings.Split(i.MustDo(arguments...), "\n")
		if len(values) != len(chunk) {
			i.Fatalf("MGET of %d keys gave %d values", len(chunk), len(values))
		}
		for n, number := range chunk {
			if values[n] != strconv.Itoa(number) {
				lost++
			}
		}
	}
	return lost
}

// WaitForWrite waits until a write was acknowledged after now.
func (w *Writer) WaitForWrite() {
	w.Helper()
	w.Eventually(SettleTimeout, "a write is acknowledged again", func() error {
		_, err := w.Do("SET", "resumed", "yes")
		return err
	})
}
