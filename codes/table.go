package codes

// table holds every code, in order.
var table = []Code{
	{
		ID: "WG0001", Text: `starting`,
		Meaning: "The broker has begun to start and takes no traffic yet (`/health/ready`).",
		Remedy:  `Wait; what it waits for is in the log.`,
	},
	{
		ID: "WG0002", Text: `draining`,
		Meaning: "The broker is on its way out and lets its clients go (`/health/ready`).",
		Remedy:  `Nothing: clients go to the others.`,
	},
	{
		ID: "WG0003", Text: `stopping`,
		Meaning: `A part of the broker failed, so it stops.`,
		Remedy:  `The line says why. Start it again; if it recurs, the reason is outside the broker.`,
	},
	{
		ID: "WG0004", Text: `part did not stop in order`,
		Meaning: `Something did not end in its time while the broker stopped.`,
		Remedy:  `Nothing is lost: the database rolls back what was not committed.`,
	},
	{
		ID: "WG0005", Text: `campaign did not end in time`,
		Meaning: `The leader's part did not end in its time while the broker stopped.`,
		Remedy:  `Nothing: its session ends with the process.`,
	},
	{
		ID: "WG0006", Text: `unknown variable`,
		Meaning: "A `WAGGLE_` variable is set that this build does not know.",
		Remedy:  "Correct its name; `waggle serve --check` refuses it.",
	},
	{
		ID: "WG0007", Text: `waiting for the database`,
		Meaning: `The database cannot be reached or refuses the broker at start.`,
		Remedy:  "The line has the cause. The broker gives up after `--start-patience`.",
		Look:    `waggle serve --check`,
	},
	{
		ID: "WG0008", Text: `this database is a copy of another one; it has got an identity of its own`,
		Meaning: `The database was restored or copied from one that another cluster uses.`,
		Remedy:  `Nothing, if that was meant: the two clusters do not hear each other.`,
		Look:    `select cluster_id, former_ids, system_identifier, database_oid from waggle.installation`,
	},
	{
		ID: "WG0022", Text: `the database is older than this build needs`,
		Meaning: "Steps of the schema are missing (`/health/ready`, exit code 3).",
		Remedy:  "Start one broker with `--apply-schema`, which is the default.",
		Look:    `waggle migrate status`,
	},
	{
		ID: "WG0023", Text: `the database is newer than this build understands`,
		Meaning: "The database was finalized for newer builds (`/health/ready`, exit code 3).",
		Remedy:  `Run a newer build.`,
		Look:    `waggle migrate status`,
	},
	{
		ID: "WG0024", Text: `a schema statement met a lock, trying again`,
		Meaning: `Somebody holds a lock on a table that a step changes.`,
		Remedy:  `Wait; end long transactions on waggle's tables if it takes minutes.`,
		Look:    `select pid, usename, application_name, clock_timestamp() - xact_start as open_for, left(query, 200) as query from pg_stat_activity where xact_start is not null order by xact_start`,
	},
	{
		ID: "WG0025", Text: `the schema lock goes with its connection`,
		Meaning: `The lock of the schema's steps could not be given back by name.`,
		Remedy:  `Nothing: it ended with its session.`,
	},
	{
		ID: "WG0027", Text: `the gate is locked, trying again`,
		Meaning: "`waggle migrate finalize` or `down` waits for transactions that write.",
		Remedy:  `Nothing, if it ends by itself; else the line names the sessions that stand in the way.`,
		Look:    `select a.pid, a.usename, a.application_name, clock_timestamp() - a.xact_start as open_for, left(a.query, 200) as query from pg_locks l join pg_stat_activity a on a.pid = l.pid where l.relation = 'waggle.gate'::regclass and l.granted`,
	},
	{
		ID: "WG0031", Text: `queue wants encryption and this broker has no key, pushes to it fail: set --encryption-key or --encryption-keys-file`,
		Meaning: "A queue has `encryptionEnabled` and this broker has no key. Nothing of it is stored.",
		Remedy:  `Give every broker the key; see [encryption](encryption.md).`,
		Look:    `select tenant, name from waggle.queue where options @> '{"encryptionEnabled": true}'`,
	},
	{
		ID: "WG0032", Text: `by route`,
		Meaning: `Stored data is sealed with a key that this broker does not have. Nothing of it is handed out.`,
		Remedy:  "Add the key that the line names to `--encryption-keys-file` of every broker.",
	},
	{
		ID: "WG0033", Text: `by route`,
		Meaning: `Stored data does not open with the key that it names: it was changed or moved.`,
		Remedy:  "Find out who writes to the database. What does not open can be skipped with `waggle seek`.",
	},
	{
		ID: "WG0034", Text: `dead letters listed without their payloads: they do not open`,
		Meaning: `Dead letters are sealed with a key that this broker does not have.`,
		Remedy:  `As for WG0032.`,
	},
	{
		ID: "WG0035", Text: `push failed: not encrypted`,
		Meaning: `A push to an encrypted queue could not be sealed.`,
		Remedy:  "The line has the cause. The items were answered `failed`.",
	},
	{
		ID: "WG0041", Text: `authentication is off: whoever reaches this address may do everything; --jwt-enabled turns it on`,
		Meaning: `Tokens are not asked for, and others than this machine can reach the listener.`,
		Remedy:  `Turn tokens on, or let only a proxy or trusted hosts through; see [authentication](authentication.md).`,
	},
	{
		ID: "WG0042", Text: `authentication is not set up well`,
		Meaning: `Tokens are asked for and none can be accepted as it is.`,
		Remedy:  `The line says which key is missing or broken.`,
	},
	{
		ID: "WG0043", Text: `keys for tokens cannot be fetched; the last ones stay`,
		Meaning: `The JWK set could not be read.`,
		Remedy:  "Look at the server of `--jwt-jwks-url`.",
	},
	{
		ID: "WG0044", Text: `some keys for tokens cannot be used`,
		Meaning: `The JWK set holds keys of kinds or sizes that are not accepted.`,
		Remedy:  `Nothing, if nobody signs with them.`,
	},
	{
		ID: "WG0053", Text: `waggle.… could not be locked within …`,
		Meaning: `A statement of a schema step met locks until its patience was over. The broker did not start; what was applied stays.`,
		Remedy:  "The line names the file, the statement and the sessions in the way: end them (`pg_terminate_backend`) and start again.",
		Look:    `select pid, usename, application_name, clock_timestamp() - xact_start as open_for, left(query, 200) as query from pg_stat_activity where xact_start is not null order by xact_start`,
	},
	{
		ID: "WG0060", Text: `an index is missing and this role may not build it`,
		Meaning: `The tables belong to another role. Everything works without the index, more slowly.`,
		Remedy:  `Let the owner of the tables run the statement in the line.`,
		Look:    `select indexrelid::regclass as index, indisvalid from pg_index where indrelid = 'waggle.dead_letter'::regclass`,
	},
	{
		ID: "WG0070", Text: `segment: format not known to this build`,
		Meaning: `A stored segment has a record format, or something in it, that this build does not know. Nothing of it is handed out.`,
		Remedy:  `Run the build that wrote it; the gate keeps others away, unless somebody wrote to the tables by hand.`,
		Look:    `select tenant, name, write_format, read_floor from waggle.queue where read_floor > 1`,
	},
	{
		ID: "WG0101", Text: `registry row was gone, registering again`,
		Meaning: `Another broker or a person removed this broker's row.`,
		Remedy:  `Nothing, once; find out who deletes rows if it recurs.`,
		Look:    `select name, start_id, version, seen_at, left_at from waggle.broker order by seen_at desc`,
	},
	{
		ID: "WG0102", Text: `registry heartbeat failed`,
		Meaning: `The broker could not tell the database that it lives.`,
		Remedy:  `Look at the database. After 30 s others take the broker for dead.`,
		Look:    `select name, clock_timestamp() - seen_at as not_seen_for from waggle.broker where left_at is null order by seen_at`,
	},
	{
		ID: "WG0103", Text: `leader row not read`,
		Meaning: `Who leads could not be read, so an older answer is shown.`,
		Remedy:  `Look at the database.`,
		Look:    `select epoch, name, pid, since from waggle.leader`,
	},
	{
		ID: "WG0104", Text: `what was done is not written, it will be with the next minute`,
		Meaning: `The numbers of the last minute could not be stored.`,
		Remedy:  `Look at the database; nothing is lost while the broker runs.`,
	},
	{
		ID: "WG0105", Text: `metrics of queues not read; the last ones are shown`,
		Meaning: "The numbers of queues for `/metrics/prometheus` could not be read.",
		Remedy:  `Look at the database.`,
	},
	{
		ID: "WG0201", Text: `this broker does not campaign for leadership`,
		Meaning: `The connection for the leader's session goes through a pooler, or its settings do not hold.`,
		Remedy:  "Point `--direct-url` at PostgreSQL itself.",
	},
	{
		ID: "WG0202", Text: `leader session closed without an orderly end`,
		Meaning: `The leader's connection broke.`,
		Remedy:  `Nothing: the lock ends with the session and somebody campaigns.`,
	},
	{
		ID: "WG0203", Text: `leader lock is held by a session that does not lead`,
		Meaning: `A session holds the lock and does not say that it leads.`,
		Remedy:  "If it lasts: the line names the session; end it with `pg_terminate_backend`.",
		Look:    `waggle leader status`,
	},
	{
		ID: "WG0204", Text: `leadership lost`,
		Meaning: `This broker led and does no longer; its jobs were cancelled.`,
		Remedy:  `Nothing, once. Often: look at the latency of the database.`,
		Look:    `waggle leader status`,
	},
	{
		ID: "WG0205", Text: `job failed`,
		Meaning: `A background job ended with an error and will run again.`,
		Remedy:  `The line has the job and the error.`,
		Look:    `select name, last_start, last_success, last_failure, last_error from waggle.job where last_error is not null`,
	},
	{
		ID: "WG0206", Text: `queue keeps everything: this build does not understand its options`,
		Meaning: `A newer build configured retention in a way that this one does not know, so nothing is deleted.`,
		Remedy:  `Upgrade the brokers.`,
		Look:    `select tenant, name, options from waggle.queue order by name`,
	},
	{
		ID: "WG0207", Text: `session of a dead leader not looked at`,
		Meaning: `The mesh lists a dead broker, and the database did not answer whether it leads.`,
		Remedy:  `Nothing: it is asked again every second.`,
	},
	{
		ID: "WG0208", Text: `session of a dead leader ended`,
		Meaning: `Neither the mesh nor the database had heard of the leader, so its session was ended for the next one.`,
		Remedy:  `Find out why that broker froze or vanished.`,
	},
	{
		ID: "WG0301", Text: `mesh did not stop in time`,
		Meaning: `Gossip did not end in its time while the broker stopped.`,
		Remedy:  `Nothing: the others take the broker for dead.`,
	},
	{
		ID: "WG0302", Text: `mesh keyring not read again`,
		Meaning: `The keys of the mesh could not be read from the database.`,
		Remedy:  `Look at the database; the old keys are used meanwhile.`,
		Look:    `waggle mesh keys`,
	},
	{
		ID: "WG0303", Text: `mesh cannot read the broker registry`,
		Meaning: `The list of brokers could not be read.`,
		Remedy:  `Look at the database; the known members are kept.`,
		Look:    `select name, mesh, seen_at from waggle.broker where left_at is null order by name`,
	},
	{
		ID: "WG0311", Text: `THE MESH IS NOT ENCRYPTED: whoever reaches its port may read and forge what brokers tell each other`,
		Meaning: "`--mesh-encryption=off` is set.",
		Remedy:  `Take it away, unless the network itself is trusted; see [the mesh](mesh.md#keys).`,
	},
	{
		ID: "WG0312", Text: `mesh key rotation waits for brokers`,
		Meaning: `A broker has not confirmed the last step for half a minute.`,
		Remedy:  "The line names brokers and reasons; so does `waggle mesh keys`. Stop or upgrade the broker: the rotation then goes on by itself.",
		Look:    `waggle mesh keys`,
	},
	{
		ID: "WG0401", Text: `push refused, too many bytes wait`,
		Meaning: `More bytes wait for the database than the broker may hold.`,
		Remedy:  "Look at the database's speed, or add brokers. The items were answered `failed`.",
		Look:    `select count(*) as sessions, wait_event_type, wait_event from pg_stat_activity where datname = current_database() group by 2, 3 order by 1 desc`,
	},
	{
		ID: "WG0402", Text: `queues of a push not resolved`,
		Meaning: `The queues of a push could not be read or made.`,
		Remedy:  "Look at the database. The items were answered `failed`.",
	},
	{
		ID: "WG0403", Text: `partitions of a push not resolved`,
		Meaning: `The partitions of a push could not be read or made.`,
		Remedy:  "Look at the database. The items were answered `failed`.",
	},
	{
		ID: "WG0404", Text: `push failed in part: a limit of the tenant is reached`,
		Meaning: `The tenant has as many queues, partitions or groups as it may have.`,
		Remedy:  `Delete some, or raise the limit.`,
		Look:    `select tenant, count(*) as queues from waggle.queue group by 1 order by 2 desc limit 20`,
	},
	{
		ID: "WG0405", Text: `push failed in part: queues or partitions not made`,
		Meaning: `Queues or partitions vanished again and again while they were made.`,
		Remedy:  `Something deletes the queue while it is pushed to.`,
	},
	{
		ID: "WG0406", Text: `push failed: a name cannot be stored`,
		Meaning: `A queue or partition name is too long or no text.`,
		Remedy:  "Correct the producer. The items were answered `failed`.",
	},
	{
		ID: "WG0407", Text: `database history changed, caches emptied`,
		Meaning: `The database failed over or was restored.`,
		Remedy:  `Nothing: the broker forgets what it remembered and reads anew.`,
	},
	{
		ID: "WG0408", Text: `emptied records not skipped, their lease will expire`,
		Meaning: `Retention emptied what a pop had just claimed.`,
		Remedy:  `Nothing: the lease ends by itself.`,
	},
	{
		ID: "WG0409", Text: `lease not given back, it will expire`,
		Meaning: `The client of a pop went away and its lease could not be ended.`,
		Remedy:  `Nothing: the lease ends by itself.`,
	},
	{
		ID: "WG0410", Text: `queue options unreadable, defaults used`,
		Meaning: `The stored options of a queue cannot be read.`,
		Remedy:  `Configure the queue anew.`,
	},
	{
		ID: "WG0411", Text: `stored a message whose place has no id`,
		Meaning: `An offset or partition number is beyond what message ids can hold.`,
		Remedy:  `Tell the authors; the message is stored and delivered.`,
	},
	{
		ID: "WG0412", Text: `push failed: the queue of duplicates not read`,
		Meaning: `What a push repeats could not be looked up.`,
		Remedy:  "Look at the database. The items were answered `failed`.",
	},
	{
		ID: "WG0413", Text: `push failed: its queue keeps changing`,
		Meaning: `The queue was deleted or configured again and again under the push.`,
		Remedy:  "Find out who does that. The items were answered `failed`.",
	},
	{
		ID: "WG0414", Text: `push failed: its queue was not resolved`,
		Meaning: `The queue could not be read again after it had changed.`,
		Remedy:  "Look at the database. The items were answered `failed`.",
	},
	{
		ID: "WG0415", Text: `look at the database failed; parked pops keep waiting`,
		Meaning: `The look for work that no hint told of failed.`,
		Remedy:  `Look at the database.`,
		Look:    `select pid, state, wait_event_type, wait_event, left(query, 200) as query from pg_stat_activity where datname = current_database()`,
	},
	{
		ID: "WG0416", Text: `push failed after conflicts`,
		Meaning: `The push met locks too often.`,
		Remedy:  "Look for long transactions on waggle's tables. The items were answered `failed`.",
		Look:    `select l.mode, l.granted, a.pid, a.application_name, clock_timestamp() - a.xact_start as open_for from pg_locks l join pg_stat_activity a on a.pid = l.pid where l.relation = 'waggle.partition'::regclass`,
	},
	{
		ID: "WG0417", Text: `ack flush failed`,
		Meaning: `Acknowledgements were not stored.`,
		Remedy:  `Look at the database. The messages come again when their lease ends.`,
	},
	{
		ID: "WG0418", Text: `ready set not built`,
		Meaning: `What a group has to consume could not be read.`,
		Remedy:  `Look at the database; it is tried again.`,
	},
	{
		ID: "WG0419", Text: `cursors not made, will try again`,
		Meaning: `The cursors of new partitions could not be made.`,
		Remedy:  `Look at the database.`,
	},
	{
		ID: "WG0420", Text: `ack failed: partitions not resolved`,
		Meaning: `The partitions of acknowledgements could not be read.`,
		Remedy:  `Look at the database. The messages come again when their lease ends.`,
	},
	{
		ID: "WG0421", Text: `ack failed`,
		Meaning: `Acknowledgements were not stored.`,
		Remedy:  `Look at the database. The messages come again when their lease ends.`,
	},
	{
		ID: "WG0422", Text: `push failed: transaction ids not looked up`,
		Meaning: `Whether a push repeats stored messages could not be read.`,
		Remedy:  "Look at the database. The items were answered `failed`.",
	},
	{
		ID: "WG0423", Text: `flush failed`,
		Meaning: `A transaction of pushes, pops and acks was rolled back.`,
		Remedy:  `Look at the database. What it carried was answered as failed, or is tried again.`,
	},
	{
		ID: "WG0424", Text: `leases of a lost flush not given back, they will expire`,
		Meaning: `A connection broke in a commit and its leases could not be ended.`,
		Remedy:  `Nothing: they end by themselves.`,
	},
	{
		ID: "WG0425", Text: `bundle failed`,
		Meaning: `A transaction, a stream cycle or a replay was rolled back.`,
		Remedy:  `The line has the cause; mostly the database. If its outcome is unknown the answer says so.`,
	},
	{
		ID: "WG0426", Text: `what an autoAck pop read was not acked`,
		Meaning: `Messages were read from an encrypted queue and then not committed.`,
		Remedy:  `Nothing: they come again.`,
	},
	{
		ID: "WG0501", Text: `renew failed`,
		Meaning: `A lease was not extended.`,
		Remedy:  `Look at the database.`,
	},
	{
		ID: "WG0502", Text: `database does not answer`,
		Meaning: "`/health` found no database.",
		Remedy:  `Look at the database.`,
	},
	{
		ID: "WG0503", Text: `some metrics are missing`,
		Meaning: `A collector failed; its families are missing from this answer.`,
		Remedy:  `The line has the collector's error.`,
	},
	{
		ID: "WG0504", Text: `metric cannot be written`,
		Meaning: `A metric could not be put into the text format.`,
		Remedy:  `Tell the authors.`,
	},
	{
		ID: "WG0505", Text: `pop maintenance not read`,
		Meaning: `The switch of pop maintenance could not be read; what was last known is shown.`,
		Remedy:  `Look at the database.`,
	},
	{
		ID: "WG0506", Text: `request panicked`,
		Meaning: `A mistake in the program; the request was answered with 500.`,
		Remedy:  `Tell the authors, with the stack of the line.`,
	},
	{
		ID: "WG0507", Text: `configure failed`,
		Meaning: `A queue was not configured.`,
		Remedy:  `The line has the cause.`,
	},
	{
		ID: "WG0508", Text: `by route`,
		Meaning: `A call of the data plane or the read side failed and was answered with 500.`,
		Remedy:  `The line has the route and the cause; mostly the database.`,
	},
	{
		ID: "WG0509", Text: `message does not decode`,
		Meaning: `A stored message cannot be decoded or opened.`,
		Remedy:  `A newer build wrote it, or see WG0032.`,
	},
	{
		ID: "WG0510", Text: `trace failed`,
		Meaning: `A trace was not stored.`,
		Remedy:  `Look at the database.`,
	},
	{
		ID: "WG0511", Text: `replay failed`,
		Meaning: `A dead letter was not moved.`,
		Remedy:  `The line has the cause; the dead letter is still there.`,
	},
	{
		ID: "WG0601", Text: `lag pass failed`,
		Meaning: `The lag of groups could not be measured; the metrics show the last pass.`,
		Remedy:  `Look at the database.`,
	},
	{
		ID: "WG0701", Text: `a postgres server that did not start does not end either`,
		Meaning: "The private server of `waggle dev` hangs.",
		Remedy:  `End it by hand: the line has its pid.`,
	},
	{
		ID: "WG0702", Text: `postgres does not stop, asking harder`,
		Meaning: "The private server of `waggle dev` has not ended in time.",
		Remedy:  `Nothing: it is told to break off its sessions.`,
	},
}
