// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestPictureShowsTasksWithTheirStates(t *testing.T) {
	command := workflowCommand()
	var out bytes.Buffer
	command.SetArgs([]string{"graph", "-f", "-", "-o", "svg"})
	command.SetIn(strings.NewReader(strings.Replace(workflowFile, "waiting for the", "waiting for <b> & the", 1)))
	command.SetOut(&out)
	if err := command.Execute(); err != nil {
		t.Fatal(err)
	}
	var texts []string
	counts := map[string]int{}
	inText := false
	for decoder := xml.NewDecoder(&out); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("it is no XML: %v", err)
		}
		switch e := token.(type) {
		case xml.StartElement:
			counts[e.Name.Local]++
			inText = e.Name.Local == "text"
		case xml.CharData:
			if inText {
				texts = append(texts, string(e))
			}
		case xml.EndElement:
			inText = false
		}
	}
	want := "count|Succeeded 3/3|price|Running|bill|Pending|log|-"
	if got := strings.Join(texts, "|"); got != want {
		t.Errorf("it has the texts %s, want %s", got, want)
	}
	// One path is the arrow, the others are dependencies.
	if counts["rect"] != 4 || counts["path"] != 4 {
		t.Errorf("it has %d tasks and %d lines", counts["rect"], counts["path"])
	}
}

func TestGraphRefusesAnotherFormat(t *testing.T) {
	command := workflowCommand()
	command.SilenceErrors, command.SilenceUsage = true, true
	command.SetArgs([]string{"graph", "-f", "-", "-o", "png"})
	command.SetIn(strings.NewReader(workflowFile))
	if err := command.Execute(); err == nil || !strings.Contains(err.Error(), "it takes text and svg") {
		t.Errorf("the error is %v", err)
	}
}
