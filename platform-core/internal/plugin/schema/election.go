// SPDX-License-Identifier: Apache-2.0

package schema

// Election names the attributes of the probe by which the members of a component with AuthorityMiddleware report the
// primary that they elected. The members of one set are the electorate: a pod is labelled as primary when a majority of
// its set names it.
type Election struct {
	// Member is the identity of the pod itself, in the middleware's words.
	Member string `json:"member"`
	// Primary is the identity of the member that the pod takes for the primary; an empty text for none.
	Primary string `json:"primary"`
	// Epoch is the middleware's own number of the election: whole numbers, separated by : or . and compared in order.
	Epoch string `json:"epoch"`
}
