// SPDX-License-Identifier: Apache-2.0

// Package message has the end-to-end tests of the message operator: Kafka clusters and topics, judged by records that
// producers were told are kept.
package message
