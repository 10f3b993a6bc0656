// Package jsonwire reads and writes JSON by hand, for the routes that carry messages.
//
// Reading is strict: the grammar of RFC 8259, valid UTF-8, and no value nested deeper than MaxDepth. What it accepts is
// what encoding/json accepts under those two conditions; tests and fuzzing hold the two against each other. A value
// that is only passed on is checked and handed out as the very bytes that came in, never decoded and encoded again.
//
// Writing appends to a buffer of the caller. Every string written parses back to the same value, but for bytes that
// are not UTF-8: each of them becomes U+FFFD.
//
// It is pure and knows nothing of the messages themselves. It stands here instead of go-json-experiment's jsontext
// because it reads a push in about half the time (a quarter less where payloads are made of many small members) and
// allocates nothing: `go test -bench PushBody ./api/jsonwire` prints the figures.
package jsonwire
