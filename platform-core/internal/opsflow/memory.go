// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
)

// mebibyte is what memory is told in.
const mebibyte = 1 << 20

// MemoryUse is what a pod uses.
type MemoryUse struct {
	// Pod by name.
	Pod string
	// Bytes that cannot be taken back from its processes; 0 where nobody knows.
	Bytes int64
}

// least is the smallest limit that leaves the processes room to go on: a tenth more than they use, in whole MiB.
func (u MemoryUse) least() int64 {
	return inMebibytes(u.Bytes + u.Bytes/10)
}

func inMebibytes(bytes int64) int64 {
	return (bytes + mebibyte - 1) / mebibyte
}

// TooLittleMemory says why pods that use so much cannot have a limit, of which the kernel would kill them; empty when
// they can. A pod of which nobody knows is not held against it.
func TooLittleMemory(limit resource.Quantity, uses []MemoryUse) string {
	short := slices.DeleteFunc(slices.Clone(uses), func(u MemoryUse) bool { return u.least()*mebibyte <= limit.Value() })
	if len(short) == 0 {
		return ""
	}
	most := slices.MaxFunc(short, func(a, b MemoryUse) int {
		return cmp.Or(cmp.Compare(a.Bytes, b.Bytes), cmp.Compare(b.Pod, a.Pod))
	})
	others := ""
	if n := len(short) - 1; n > 0 {
		others = fmt.Sprintf(", the most of %d pods that use too much for it", n+1)
	}
	return fmt.Sprintf("pod %s uses %dMi of memory now%s, and a limit of %s is asked for: the least that would do is "+
		"%dMi; have it use less before, or ask for more",
		most.Pod, inMebibytes(most.Bytes), others, limit.String(), most.least())
}
