-- LeaderSession.Bump, first in its transaction: unlike heartbeats, an epoch is durable before anybody hears of it.
set local synchronous_commit to default
