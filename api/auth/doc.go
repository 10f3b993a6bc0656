// Package auth decides who may do what over HTTP: it reads the bearer token of a request, verifies it, and holds its
// roles against the level of the path. It knows neither routes nor queues.
//
// What it promises:
//
//   - Only the algorithms of the configured mode are accepted, and each algorithm has one kind of key: a public key is
//     never used as a secret. `none` is no algorithm.
//   - A claim that cannot be read fails its own check. Roles that cannot be read are no roles.
//   - Levels are sets of roles, not a ladder: who may write need not be allowed to read.
//   - Verified tokens are remembered, at most 4,096 of them, under the SHA-256 of the whole token and no longer than
//     they are valid. They are forgotten when the published keys are read again, so that a withdrawn key ends with them.
//   - Fetching published keys has one owner, Run. Requests ask it for a fetch and wait, at most once per 5 s.
//
// A request passes, in this order: skipped paths, public paths, the token (401), its roles (403). A broker that was given
// no usable key answers 500 to what reaches the token check.
package auth
