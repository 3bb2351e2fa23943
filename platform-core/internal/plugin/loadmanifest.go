// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// Keys of the manifest part.
const (
	keyVersion            = "version"
	keyDomain             = "domain"
	keySupportedVersions  = "supported-versions"
	keyAllowedUpgradeFrom = "allowed-upgrade-from"
)

// refKey is the key of the manifest that names the ConfigMap of another part.
func refKey(part Part) string { return string(part) + "-ref" }

// Domains are the operators that a plugin can belong to.
func Domains() []string {
	return []string{"storage", "database", "message", "model", "common", "batch"}
}

var (
	semanticVersion   = regexp.MustCompile(`^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9a-z.-]+)?$`)
	pluginVersion     = regexp.MustCompile(`^v?` + strings.TrimPrefix(semanticVersion.String(), "^"))
	middlewareVersion = regexp.MustCompile(`^[0-9A-Za-z]([-0-9A-Za-z.+]{0,38}[0-9A-Za-z])?$`)
	pluginName        = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$`)
)

func (l *loader) loadManifest() {
	name, version := l.identity()
	l.manifest = Manifest{Name: name, Version: version, Refs: map[Part]string{}}
	data := l.part(PartManifest)
	if _, ok := l.sources[PartManifest]; !ok {
		return
	}
	if !pluginName.MatchString(name) {
		l.fail(PartManifest, "", 0, "the plugin's name %q is not allowed: it must be 1 to 40 small letters, digits and "+
			"dashes that begin with a letter", name)
	}
	l.checkManifestKeys(data)
	if got := data[keyVersion]; platformv1.CanonicalPluginVersion(got) != version {
		l.fail(PartManifest, keyVersion, 1, "version is %q: it must be %q as in the name of the ConfigMap", got, version)
	}
	if !semanticVersion.MatchString(version) {
		l.fail(PartManifest, keyVersion, 1, "version %q is not a semantic version such as 1.0.0", version)
	}
	domain, declared := data[keyDomain]
	if l.manifest.Domain = domain; !declared {
		l.manifest.Domain = l.sources[PartManifest].DefaultDomain
	}
	if declared && !slices.Contains(Domains(), l.manifest.Domain) {
		l.fail(PartManifest, keyDomain, 1, "domain is %q: it must be one of %s", l.manifest.Domain,
			strings.Join(Domains(), ", "))
	}
	l.manifest.SupportedVersions = l.manifestList(keySupportedVersions, middlewareVersion,
		"the version of a middleware such as 7.0")
	if len(l.manifest.SupportedVersions) == 0 {
		l.fail(PartManifest, keySupportedVersions, 1, `supported-versions is empty: name at least one, for example "7.0,8.0"`)
	}
	l.manifest.AllowedUpgradeFrom = l.manifestList(keyAllowedUpgradeFrom, pluginVersion,
		"a semantic version such as 1.0.0")
	if slices.Contains(l.manifest.AllowedUpgradeFrom, version) {
		l.fail(PartManifest, keyAllowedUpgradeFrom, 1, "allowed-upgrade-from names the plugin's own version %s: take it out",
			version)
	}
	l.checkRefs(data)
}

func (l *loader) checkManifestKeys(data map[string]string) {
	known := []string{keyVersion, keyDomain, keySupportedVersions, keyAllowedUpgradeFrom}
	for _, part := range Parts()[1:] {
		known = append(known, refKey(part))
	}
	for _, key := range slices.Sorted(maps.Keys(data)) {
		if !slices.Contains(known, key) {
			l.fail(PartManifest, key, 1, "key %q is not known: the keys are %s", key, strings.Join(known, ", "))
		}
	}
}

// checkRefs checks that the manifest names the ConfigMaps that the other parts are in.
func (l *loader) checkRefs(data map[string]string) {
	for _, part := range Parts()[1:] {
		want := l.sourceName(part)
		switch ref := data[refKey(part)]; {
		case ref == want || l.sources[part].names(ref):
			l.manifest.Refs[part] = want
		case ref == "":
			l.fail(PartManifest, refKey(part), 0, "%s is missing: it must be %q", refKey(part), want)
		default:
			l.fail(PartManifest, refKey(part), 1, "%s is %q: it must be %q", refKey(part), ref, want)
		}
	}
}

// manifestList splits a value at commas. A version of the plugin is listed without its v.
func (l *loader) manifestList(key string, pattern *regexp.Regexp, allowed string) []string {
	var list []string
	text := strings.TrimSpace(l.part(PartManifest)[key])
	if text == "" {
		return nil
	}
	for item := range strings.SplitSeq(text, ",") {
		item = strings.TrimSpace(item)
		if pattern == pluginVersion {
			item = platformv1.CanonicalPluginVersion(item)
		}
		message := ""
		switch {
		case !pattern.MatchString(item):
			message = fmt.Sprintf("%s has %q: each must be %s", key, item, allowed)
		case slices.Contains(list, item):
			message = fmt.Sprintf("%s has %q twice", key, item)
		}
		if message != "" {
			l.fail(PartManifest, key, 1, "%s", message)
			continue
		}
		list = append(list, item)
	}
	return list
}
