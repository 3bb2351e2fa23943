// SPDX-License-Identifier: Apache-2.0

package wal

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
)

// File is the name of a file that a server archives.
type File struct {
	// Name as the server has it.
	Name string
	// Kind of the file.
	Kind Kind
	// Timeline that the file is of.
	Timeline int64
	// Number of the segment, in the order of the log; 0 of a history.
	Number int64
}

// Kind of a file.
type Kind string

// Kinds.
const (
	// Segment of the log.
	Segment Kind = "segment"
	// Partial is the last segment of a timeline as far as the server that left it had it.
	Partial Kind = "partial"
	// History of a timeline.
	History Kind = "history"
	// Backup says where the log begins that a backup needs.
	Backup Kind = "backup"
)

var (
	segmentForm = regexp.MustCompile(`^([0-9A-F]{8})([0-9A-F]{8})([0-9A-F]{8})(\.partial|\.[0-9A-F]{8}\.backup)?$`)
	historyForm = regexp.MustCompile(`^([0-9A-F]{8})\.history$`)
)

// SegmentBytes is the size of a segment: initdb was told of no other.
const SegmentBytes = 16 << 20

// segmentsPerFile is how many there are before the middle part of the name goes up.
const segmentsPerFile = 1 << 32 / SegmentBytes

// Parse reads the name of a file.
func Parse(name string) (File, error) {
	number := func(text string) int64 {
		// The form leaves nothing that could go wrong.
		n, _ := strconv.ParseInt(cmp.Or(text, "0"), 16, 64)
		return n
	}
	if m := historyForm.FindStringSubmatch(name); m != nil {
		return File{Name: name, Kind: History, Timeline: number(m[1])}, nil
	}
	m := segmentForm.FindStringSubmatch(name)
	if m == nil {
		return File{}, fmt.Errorf("%q is no name of a file of the log", name)
	}
	f := File{Name: name, Kind: Segment, Timeline: number(m[1]), Number: number(m[2])*segmentsPerFile + number(m[3])}
	switch {
	case m[4] == ".partial":
		f.Kind = Partial
	case m[4] != "":
		f.Kind = Backup
	}
	return f, nil
}

// SegmentOf is a segment by its number.
func SegmentOf(timeline, number int64) File {
	return File{Name: fmt.Sprintf("%08X%08X%08X", timeline, number/segmentsPerFile, number%segmentsPerFile), Kind: Segment,
		Timeline: timeline, Number: number}
}

// Timeline is one by its number and the term in which it began: numbers can be given twice.
type Timeline struct{ Number, Term int64 }

// String is its folder in the store.
func (t Timeline) String() string { return fmt.Sprintf("%08X-%d", t.Number, t.Term) }

var timelineForm = regexp.MustCompile(`^([0-9A-F]{8})-([0-9]{1,18})$`)

// ParseTimeline reads what String wrote.
func ParseTimeline(text string) (Timeline, error) {
	m := timelineForm.FindStringSubmatch(text)
	if m == nil {
		return Timeline{}, fmt.Errorf("%q is no timeline such as 00000002-5", text)
	}
	number, err1 := strconv.ParseInt(m[1], 16, 64)
	term, err2 := strconv.ParseInt(m[2], 10, 64)
	return Timeline{number, term}, cmp.Or(err1, err2)
}

const (
	// markName is the object that says whose the archive is.
	markName = "archive.json"
	// timelinesFolder has the histories of timelines, logFolder everything else.
	timelinesFolder = "timelines"
	logFolder       = "wal"
	// compressed is what names of objects with files end with.
	compressed = ".zst"
)

// object that a file of a timeline is.
func object(t Timeline, f File) string {
	if f.Kind == History {
		return timelinesFolder + "/" + t.String() + ".history" + compressed
	}
	return logFolder + "/" + t.String() + "/" + f.Name + compressed
}
