// Package bench measures a cluster against the machine it stands on.
//
// A row of the report is a ratio: what the cluster does, divided by a yardstick that the same machine managed in the
// same run. A yardstick is the least that the work could cost: the same requests answered without storing them, ready
// blobs inserted straight into the same PostgreSQL, one row updated. Ratios survive a change of machine, absolute
// numbers do not.
//
// Work is done in sides, a few seconds each. A round runs each needed side once, in turn, so that a slow minute of
// the machine hits value and yardstick alike; a row is the median of its rounds. Every side also counts the processor
// time of brokers, of PostgreSQL and of this load generator, and the commits and WAL it caused: regressions show there
// first. What is drained is audited: each message must arrive once, in the order in which its connection pushed it.
//
// The load generator shares the processors with what it measures, so it must be cheap: requests are byte templates in
// which ids are patched in place, connections are plain sockets, answers are searched rather than parsed.
package bench
