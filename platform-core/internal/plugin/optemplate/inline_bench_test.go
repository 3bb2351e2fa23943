// SPDX-License-Identifier: Apache-2.0

package optemplate

import (
	"fmt"
	"strings"
	"testing"
)

// chain is an inline template of so many steps, each of which reads an output of the one before.
func chain(steps int) string {
	var text strings.Builder
	text.WriteString("name: Chain\nsteps:\n  - {name: s0, http: {url: 'http://x'}}\n")
	for n := 1; n < steps; n++ {
		fmt.Fprintf(&text, "  - {name: s%d, http: {url: 'http://x/${tasks.s%d.outputs.status}'}}\n", n, n-1)
	}
	return text.String()
}

// TestParseInlineKeepsWhatItCompiled reads a template, another one and the first one again: each says what its own text
// does.
func TestParseInlineKeepsWhatItCompiled(t *testing.T) {
	for _, steps := range []int{2, 3, 2} {
		template, err := ParseInline(chain(steps))
		if err != nil || len(template.Steps) != steps {
			t.Errorf("got %d steps of %d: %v", len(template.Steps), steps, err)
		}
	}
	for range 2 {
		if _, err := ParseInline("name: Chain"); err == nil {
			t.Error("a template without steps was accepted")
		}
	}
}

// BenchmarkParseInline reads the template of an Operation as each reconcile does.
func BenchmarkParseInline(b *testing.B) {
	for _, steps := range []int{1, 10, 80} {
		text := chain(steps)
		b.Run(fmt.Sprintf("compiled/steps=%d", steps), func(b *testing.B) {
			for b.Loop() {
				if _, err := parseInline(text, 1); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("kept/steps=%d", steps), func(b *testing.B) {
			if _, err := ParseInline(text); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if _, err := ParseInline(text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
