// Package meshtest is a network of brokers in one process, for tests of the mesh and of what uses it.
//
// [Network] carries packets and streams between transports without sockets. It loses, delays and cuts them on
// demand, and works under testing/synctest, so that minutes of a mesh's life pass in no time. [Registry] stands in
// for the broker registry, [Recorder] for the broker that takes hints.
package meshtest
