// SPDX-License-Identifier: Apache-2.0

package cron

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	// An image has no zones of its own.
	_ "time/tzdata"

	"github.com/robfig/cron/v3"
)

// parser reads lines of five fields, or of six where the first one has seconds, and descriptors such as @hourly.
var parser = cron.NewParser(
	cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

// descriptors that a line can be.
var descriptors = []string{"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}

// field is the range within which H chooses a value. Each month has the days up to 28.
type field struct {
	name     string
	min, max int
}

// fields of a line of six.
var fields = []field{{"second", 0, 59}, {"minute", 0, 59}, {"hour", 0, 23}, {"day of month", 1, 28}, {"month", 1, 12},
	{"day of week", 0, 6}}

// spread is H, H/STEP, H(FROM-TO) or H(FROM-TO)/STEP.
var spread = regexp.MustCompile(`^H(?:\((\d{1,2})-(\d{1,2})\))?(?:/(\d{1,2}))?$`)

// Parse reads cron lines that share a zone, by its IANA name, and a policy. seed decides what H stands for: the same
// seed gives the same times. The error is a sentence that names the line.
func Parse(lines []string, zone string, policy Policy, seed string) (Schedule, error) {
	if zone == "" || zone == "Local" {
		return Schedule{}, fmt.Errorf("time zone %q is not valid: use an IANA name such as Europe/Berlin or UTC", zone)
	}
	location, err := time.LoadLocation(zone)
	if err != nil {
		return Schedule{}, fmt.Errorf("time zone %q does not exist: use an IANA name such as Europe/Berlin or UTC", zone)
	}
	if len(lines) == 0 {
		return Schedule{}, errors.New("there is no schedule")
	}
	s := Schedule{zone: location, policy: policy}
	for _, line := range lines {
		parsed, err := parseLine(line, seed)
		if err != nil {
			return Schedule{}, fmt.Errorf("schedule %q is not valid: %w", line, err)
		}
		s.lines = append(s.lines, parsed)
	}
	return s, nil
}

func parseLine(line, seed string) (*cron.SpecSchedule, error) {
	switch {
	case strings.HasPrefix(line, "@") && !slices.Contains(descriptors, line):
		return nil, fmt.Errorf("use one of %s, or a line of five or six fields", strings.Join(descriptors, ", "))
	case strings.Contains(line, "="):
		return nil, errors.New("a time zone belongs into the field timeZone")
	}
	resolved, err := resolve(line, seed)
	if err != nil {
		return nil, err
	}
	parsed, err := parser.Parse(resolved)
	if err != nil {
		return nil, err
	}
	spec, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return nil, errors.New("it names no times of day")
	}
	spec.Location = time.UTC
	if nextWall(spec, time.Unix(0, 0).UTC()).IsZero() {
		return nil, errors.New("it names a day that never comes")
	}
	return spec, nil
}

// resolve replaces each H of a line by a value that follows from the seed.
func resolve(line, seed string) (string, error) {
	words := strings.Fields(line)
	if len(words) != len(fields) && len(words) != len(fields)-1 {
		// A descriptor, or what the parser refuses.
		return line, nil
	}
	of := fields[len(fields)-len(words):]
	for i, word := range words {
		if !strings.Contains(word, "H") || i >= 3 && !spread.MatchString(word) {
			// Names of days and months have letters as well.
			continue
		}
		parts := spread.FindStringSubmatch(word)
		if parts == nil {
			return "", fmt.Errorf("%s %q is not valid: H stands alone, as H/STEP, H(FROM-TO) or H(FROM-TO)/STEP", of[i].name,
				word)
		}
		value, err := choose(of[i], parts, seed)
		if err != nil {
			return "", err
		}
		words[i] = value
	}
	return strings.Join(words, " "), nil
}

// choose is the value, or the range with a step, that H stands for in a field.
func choose(f field, parts []string, seed string) (string, error) {
	if parts[1] != "" {
		from, to := number(parts[1]), number(parts[2])
		if from < f.min || to > f.max || from > to {
			return "", fmt.Errorf("%s %q is not within %d-%d", f.name, parts[0], f.min, f.max)
		}
		f.min, f.max = from, to
	}
	sum := sha256.Sum256([]byte(f.name + "\x00" + seed))
	hash := binary.BigEndian.Uint32(sum[:])
	size := f.max - f.min + 1
	if parts[3] == "" {
		return strconv.Itoa(f.min + int(hash%uint32(size))), nil
	}
	step := number(parts[3])
	if step < 1 || step > size {
		return "", fmt.Errorf("%s %q has a step that is not within 1-%d", f.name, parts[0], size)
	}
	return fmt.Sprintf("%d-%d/%d", f.min+int(hash%uint32(step)), f.max, step), nil
}

// number of a text that has one or two digits.
func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return -1
	}
	return n
}
