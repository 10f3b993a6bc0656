// Package api is the HTTP side of a broker: it routes, decodes, checks limits and tenancy, and writes answers and
// errors. It holds no SQL and decides nothing about queues: the data plane stands behind Broker, the read side behind
// Reads, the rest behind Cluster and Health, all of them interfaces declared here.
//
// What it promises:
//
//   - Paths are matched on the request target as it was sent. Names in them may hold slashes, dots, quotes, backslashes
//     and any UTF-8, raw or percent-encoded; nothing is cleaned and nobody is redirected.
//   - A payload leaves as the bytes it came in as. It is checked once, at push, and never decoded.
//   - Bodies and answers use pooled buffers. The bytes of bodies held at one time are bounded over all requests.
//   - A request that panics costs its own client a 500 and nobody else anything.
//   - Metrics are labelled by route pattern, so their number does not grow with traffic.
//
// A request passes, in this order: token and its roles (401, 403), route (404, 405), tenant (400), the handler's own
// parameters and body (400, 413), the port behind it.
package api
