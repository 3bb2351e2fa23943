// SPDX-License-Identifier: Apache-2.0

package replication

import (
	"fmt"
	"strconv"
	"strings"
)

// LSN is a position in the write-ahead log.
type LSN uint64

// ParseLSN reads what the server writes, such as 0/3000148.
func ParseLSN(text string) (LSN, error) {
	high, low, found := strings.Cut(strings.TrimSpace(text), "/")
	upper, err1 := strconv.ParseUint(high, 16, 32)
	lower, err2 := strconv.ParseUint(low, 16, 32)
	if !found || err1 != nil || err2 != nil {
		return 0, fmt.Errorf("%q is no position in the log", text)
	}
	return LSN(upper<<32 | lower), nil
}

// String is as the server writes it.
func (l LSN) String() string { return fmt.Sprintf("%X/%X", uint64(l)>>32, uint32(l)) }

// Branch is a timeline that a history left, and where.
type Branch struct {
	Timeline int64
	End      LSN
}

// ParseHistory reads a server's history file: the timelines that came before its own.
func ParseHistory(text string) ([]Branch, error) {
	var branches []Branch
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if len(fields) < 2 {
			return nil, fmt.Errorf("line %q of the history is cut off", strings.TrimSpace(line))
		}
		timeline, err := strconv.ParseInt(fields[0], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("line %q of the history begins with no timeline", strings.TrimSpace(line))
		}
		end, err := ParseLSN(fields[1])
		if err != nil {
			return nil, err
		}
		branches = append(branches, Branch{timeline, end})
	}
	return branches, nil
}

// Terms says in which term a timeline began, for those that began with a promotion by the engine.
type Terms map[int64]int64

// ParseTerms reads lines of a timeline and its term. What is not one is left out: it stands for a timeline that nobody
// knows.
func ParseTerms(text string) Terms {
	terms := Terms{}
	for line := range strings.Lines(text) {
		var timeline, term int64
		if n, _ := fmt.Sscan(line, &timeline, &term); n == 2 {
			terms[timeline] = term
		}
	}
	return terms
}

// String is what ParseTerms reads.
func (t Terms) String() string {
	var text strings.Builder
	for timeline := int64(1); len(t) > 0 && timeline <= t.last(); timeline++ {
		if term, known := t[timeline]; known {
			fmt.Fprintf(&text, "%d %d\n", timeline, term)
		}
	}
	return text.String()
}

func (t Terms) last() int64 {
	last := int64(0)
	for timeline := range t {
		last = max(last, timeline)
	}
	return last
}

// Lineage is where the data of a server comes from, and how far it goes.
type Lineage struct {
	// System is the number that initdb gave.
	System string
	// Timeline of the last record, and the position after it.
	Timeline int64
	End      LSN
	// History of Timeline. It is known of the primary only.
	History []Branch
	// Terms of timelines.
	Terms Terms
	// Upgrade is what the primary's data took the place of.
	Upgrade Upgrade
}

// Verdict on data that is to follow a primary's.
type Verdict string

// Verdicts.
const (
	// Follows: the primary's data goes on from it.
	Follows Verdict = "Follows"
	// Rewinds: it went elsewhere from a point that both have.
	Rewinds Verdict = "Rewinds"
	// Copies: it has nothing to do with the primary's, or nobody can tell what.
	Copies Verdict = "Copies"
	// Replaced: it is of another major version, and has to be data that the primary's took the place of.
	Replaced Verdict = "Replaced"
	// Broken: it was being rewound, and is no data any more.
	Broken Verdict = "Broken"
	// Refused: it is of another initdb. Nobody but a person may throw it away.
	Refused Verdict = "Refused"
)

// Decide says how data can follow a primary's, and why.
func Decide(own, primary Lineage) (Verdict, string) {
	if own.System != primary.System && primary.replaced(own.System) {
		return Copies, fmt.Sprintf("the primary's data replaced that of system %s in an upgrade", own.System)
	}
	if own.System != primary.System {
		return Refused, fmt.Sprintf("its data is of system %s, and the primary's of %s: rebuild the member if its data "+
			"can go",
			own.System, primary.System)
	}
	end := primary.End
	if own.Timeline != primary.Timeline {
		found := false
		for _, branch := range primary.History {
			if branch.Timeline == own.Timeline {
				end, found = branch.End, true
			}
		}
		if !found {
			return Rewinds, fmt.Sprintf("its timeline %d is not in the history of the primary's timeline %d", own.Timeline,
				primary.Timeline)
		}
	}
	if ours, theirs := own.Terms[own.Timeline], primary.Terms[own.Timeline]; ours != theirs {
		return Copies, fmt.Sprintf("its timeline %d began in term %d, and that of the primary in term %d",
			own.Timeline, ours,
			theirs)
	}
	if own.End > end {
		return Rewinds, fmt.Sprintf("it has the log of timeline %d up to %s, and the primary's diverged at %s",
			own.Timeline, own.End, end)
	}
	return Follows, ""
}
