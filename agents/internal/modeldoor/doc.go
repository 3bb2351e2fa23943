// SPDX-License-Identifier: Apache-2.0

// Package modeldoor is the door of servers of a model: a proxy for HTTP that holds requests while there are no servers,
// and says whether they are needed.
//
// Servers are reached by the address of a Service, which leads to those that are ready. Each request has a connection
// of its own, so that none is sent by a connection that a server is about to close. Where nobody accepts the
// connection, the request waits until somebody does. A request that a server took and did not begin to answer is sent
// again, as far as its body was kept.
package modeldoor
