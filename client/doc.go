// Package client speaks to a waggle cluster over HTTP.
//
// A Client knows the URLs of some or all brokers. Any broker serves any call, so a call goes to one of them and, when
// that one cannot be reached or answers with a server error, to the next. A broker that failed is left alone for five
// seconds unless no other is left. Calls about one queue prefer one broker, which keeps that broker's caches warm.
//
// What is repeated and what is not:
//   - Push is repeated. Items without a transaction id are given one first, so that a repeat is a duplicate, not a
//     second message, as long as the queue's de-duplication window is on.
//   - Pop is repeated, but with AutoAck only while the request cannot have reached a broker: a lost answer would then
//     be lost messages, and the caller has to know. Without AutoAck a lost answer is redelivered when its lease ends.
//   - Ack, AckBatch, Extend, Configure (without IfVersion), DeleteQueue and all reads are repeated.
//
// A refusal by a broker is an *Error, no broker reachable an *UnreachableError. Payloads are raw JSON both ways.
package client
