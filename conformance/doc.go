// Package conformance holds a black-box suite for the HTTP contract that the published clients rely on. It consists of
// tests only and shares no code with the broker: what is right was written down from the contract, so that the suite can
// judge any server that claims it.
//
//	go test ./conformance                                     three brokers of this repository, started for the occasion
//	go test ./conformance -urls http://a:6632,http://b:6632   any others; every request goes to a random one of them
//
// docs/conformance.md says what it covers and how it is run elsewhere.
package conformance
