// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/zeroinfra/agents/internal/command"
	"github.com/zeroinfra/agents/internal/reaper"
	"github.com/zeroinfra/platform-core/agentproto/mover"
)

// maxStreams is how many a backup is made of at most.
const maxStreams = 256

// factsOfStreams bound what the command says that tells what is to be steady: it may have some of each stream, such as
// long lists of ranges.
var factsOfStreams = factLimits{most: maxFacts * maxStreams, longest: command.MaxOutput}

var (
	streamForm   = regexp.MustCompile(`^[0-9A-Za-z-]{1,63}$`)
	variableForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)
	// noVariable is what the name of a variable has not.
	noVariable = regexp.MustCompile(`[^A-Za-z0-9]`)
)

// checkStreams says whether a plan can be done for its streams.
func checkStreams(plan *mover.Plan) error {
	if len(plan.Streams) > maxStreams || len(plan.Steady) > 0 && len(plan.Streams) == 0 {
		return fmt.Errorf("the verb %s has %d streams, and %d words of a command for what is steady", plan.Verb,
			len(plan.Streams), len(plan.Steady))
	}
	seen := map[string]bool{}
	for _, s := range plan.Streams {
		if !streamForm.MatchString(s.Name) || seen[s.Name] {
			return fmt.Errorf("the stream %q has no name of its own", s.Name)
		}
		seen[s.Name] = true
		if i := slices.IndexFunc(s.Env, func(variable string) bool { return !variableForm.MatchString(variable) }); i >= 0 {
			return fmt.Errorf("the stream %q has the variable %q", s.Name, s.Env[i])
		}
	}
	return nil
}

// with is the mover with other variables for its commands, in place of those of their names.
func (m *Mover) with(env []string) *Mover {
	if len(env) == 0 {
		return m
	}
	named := map[string]bool{}
	for _, variable := range env {
		name, _, _ := strings.Cut(variable, "=")
		named[name] = true
	}
	other := *m
	other.Env = slices.DeleteFunc(slices.Clone(m.Env), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return named[name]
	})
	other.Env = append(other.Env, env...)
	return &other
}

// takeStreams takes one stream after the other, while what is to be steady is.
func (a *attempt) takeStreams(ctx context.Context, manifest *mover.Manifest) error {
	before, err := a.steady(ctx)
	if err != nil {
		return err
	}
	manifest.FormatVersion = mover.StreamsFormatVersion
	for _, s := range a.Streams {
		if err := a.takeStream(ctx, manifest, s); err != nil {
			var known *failure
			if errors.As(err, &known) {
				return fail(known.reason, "%s: %s", s.Name, known.message)
			}
			return fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	after, err := a.steady(ctx)
	if err != nil {
		return err
	}
	if !maps.Equal(before, after) {
		return fail(mover.ReasonUnsteady, "while the data was taken that changed of which all of it has to be: %s",
			difference(before, after))
	}
	manifest.Facts = distribute(after, manifest.Streams)
	return nil
}

// takeStream adds one stream to a manifest.
func (a *attempt) takeStream(ctx context.Context, manifest *mover.Manifest, s mover.Stream) error {
	began := a.Now().UTC()
	its := a.Mover.with(s.Env)
	taken, err := a.carry(ctx, its, manifest.Compression, len(manifest.Parts))
	if err != nil {
		return err
	}
	facts, err := its.facts(ctx, a.Facts)
	if err != nil {
		return err
	}
	for i := range taken.parts {
		taken.parts[i].Stream = s.Name
	}
	manifest.Parts = append(manifest.Parts, taken.parts...)
	manifest.RawSize += taken.rawSize
	manifest.Streams = append(manifest.Streams, mover.StreamManifest{
		Name: s.Name, RawSize: taken.rawSize, RawSHA256: taken.rawSHA256, StartTime: began, EndTime: a.Now().UTC(),
		Facts: facts,
	})
	return nil
}

// steady is what the command says that tells what must not change. It refuses by its exit code.
func (a *attempt) steady(ctx context.Context) (map[string]string, error) {
	if len(a.Steady) == 0 {
		return nil, nil
	}
	said, result, err := a.tell(ctx, a.Steady, factsOfStreams)
	if err == nil && result.Exit != (reaper.Exit{}) {
		return nil, fail(mover.ReasonUnsteady, "the data cannot be taken now: %s", lastOf(result.Stderr))
	}
	return said, err
}

// difference names the first fact that is not as it was.
func difference(before, after map[string]string) string {
	all := maps.Clone(before)
	maps.Copy(all, after)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if before[key] != after[key] {
			return fmt.Sprintf("%s was %q and is %q", key, shortened(before[key], maxFact), shortened(after[key], maxFact))
		}
	}
	return "nobody knows what"
}

// distribute gives facts named <key>.<stream> to their streams, and returns the others.
func distribute(facts map[string]string, streams []mover.StreamManifest) map[string]string {
	rest := map[string]string{}
	for name, value := range facts {
		dot := strings.LastIndexByte(name, '.')
		i := slices.IndexFunc(streams, func(s mover.StreamManifest) bool { return dot > 0 && s.Name == name[dot+1:] })
		if i < 0 {
			rest[name] = value
			continue
		}
		if streams[i].Facts == nil {
			streams[i].Facts = map[string]string{}
		}
		streams[i].Facts[name[:dot]] = value
	}
	return rest
}

// streamOf is a manifest of one stream alone; the manifest itself where there are none, and none is asked for.
func streamOf(manifest *mover.Manifest, name string) (*mover.Manifest, error) {
	if name == "" && len(manifest.Streams) == 0 {
		return manifest, nil
	}
	i := slices.IndexFunc(manifest.Streams, func(s mover.StreamManifest) bool { return s.Name == name })
	if i < 0 {
		return nil, fail(mover.ReasonBadPlan, "the backup has no stream %q: it has %d others", name, len(manifest.Streams))
	}
	s, one := manifest.Streams[i], *manifest
	one.RawSize, one.RawSHA256, one.Streams = s.RawSize, s.RawSHA256, nil
	one.Facts = maps.Clone(manifest.Facts)
	if one.Facts == nil {
		one.Facts = map[string]string{}
	}
	maps.Copy(one.Facts, s.Facts)
	one.Parts = slices.DeleteFunc(slices.Clone(manifest.Parts), func(p mover.Part) bool { return p.Stream != name })
	return &one, nil
}

// streamsOf are the manifests of all streams, each alone; the manifest itself where there are none.
func streamsOf(manifest *mover.Manifest) []*mover.Manifest {
	if len(manifest.Streams) == 0 {
		return []*mover.Manifest{manifest}
	}
	var all []*mover.Manifest
	for _, s := range manifest.Streams {
		if one, err := streamOf(manifest, s.Name); err == nil {
			all = append(all, one)
		}
	}
	return all
}

// told are the variables by which a command of a restore is told the facts.
func told(facts map[string]string) []string {
	var env []string
	for _, name := range slices.Sorted(maps.Keys(facts)) {
		env = append(env, mover.FactPrefix+noVariable.ReplaceAllString(name, "_")+"="+facts[name])
	}
	return env
}

// checkManifestStreams says whether each part is of a stream, in the order of these, and each stream has its size, its
// sum and a part.
func checkManifestStreams(manifest *mover.Manifest) error {
	if (len(manifest.Streams) > 0) != (manifest.FormatVersion == mover.StreamsFormatVersion) {
		return damaged("the manifest has the format version %d and %d streams", manifest.FormatVersion, len(manifest.Streams))
	}
	rest, size, seen := manifest.Parts, int64(0), map[string]bool{}
	for _, s := range manifest.Streams {
		its := 0
		for len(rest) > 0 && rest[0].Stream == s.Name {
			its, rest = its+1, rest[1:]
		}
		if !streamForm.MatchString(s.Name) || seen[s.Name] || its == 0 || s.RawSize < 1 || !isSum(s.RawSHA256) {
			return damaged("the manifest has the stream %q with %d parts and %d bytes", s.Name, its, s.RawSize)
		}
		seen[s.Name], size = true, size+s.RawSize
	}
	switch {
	case len(manifest.Streams) > 0 && (len(rest) > 0 || size != manifest.RawSize || manifest.RawSHA256 != ""):
		return damaged("the manifest has parts or bytes that are of no stream")
	case len(manifest.Streams) == 0 && manifest.Files == nil &&
		(!isSum(manifest.RawSHA256) || slices.ContainsFunc(rest, func(p mover.Part) bool { return p.Stream != "" })):
		return damaged("the manifest has no sum of the data, or parts of a stream that it does not name")
	}
	return nil
}
