// SPDX-License-Identifier: Apache-2.0

package jsonlog_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/zeroinfra/agents/internal/jsonlog"
)

func TestLinesAreJSONInOrder(t *testing.T) {
	reader, writer := io.Pipe()
	log := jsonlog.New(writer, slog.LevelInfo)
	go func() {
		log.Debug("not shown")
		log.Info("first", "key", "a\nb")
		log.Warn("second")
		log.Flush(time.Minute)
		writer.Close()
	}()
	data, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	var messages []string
	for line := range strings.Lines(string(data)) {
		var entry map[string]any
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		messages = append(messages, entry["level"].(string)+" "+entry["msg"].(string))
	}
	if got := strings.Join(messages, ", "); got != "INFO first, WARN second" {
		t.Errorf("got %s", got)
	}
}

func TestStuckReaderBlocksNobody(t *testing.T) {
	out := &gate{open: make(chan struct{})}
	defer close(out.open)
	log := jsonlog.New(out, slog.LevelInfo)
	finished := make(chan struct{})
	go func() {
		for range 10_000 {
			log.Info("line")
		}
		log.Flush(50 * time.Millisecond)
		close(finished)
	}()
	select {
	case <-finished:
	case <-time.After(2 * time.Minute):
		t.Fatal("the log waits for its reader")
	}
}

func TestNewestLinesSurvive(t *testing.T) {
	out := &gate{open: make(chan struct{})}
	log := jsonlog.New(out, slog.LevelInfo)
	for range 1000 {
		log.Info("old")
	}
	log.Info("newest")
	close(out.open)
	log.Flush(time.Minute)
	if !strings.Contains(out.written.String(), "newest") {
		t.Error("the newest line was dropped")
	}
	if n := strings.Count(out.written.String(), "old"); n >= 1000 {
		t.Errorf("%d old lines were kept", n)
	}
}

// gate holds lines back until it is opened. Only the log's writer touches written until Flush returns.
type gate struct {
	open    chan struct{}
	written bytes.Buffer
}

func (g *gate) Write(p []byte) (int, error) {
	<-g.open
	return g.written.Write(p)
}
