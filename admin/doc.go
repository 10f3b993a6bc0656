// Package admin is the read side: what people, dashboards and monitoring ask about queues, without being part of the
// data plane. Answers are computed at the call, by set-based statements that take no locks; they may be a moment old
// and are never a basis for a decision of the broker.
//
// Reader answers single questions. LagCollector keeps the lag of all groups for Prometheus: however often it is
// scraped, the database is asked at most once in 30 s, and the number of series is bounded.
package admin
