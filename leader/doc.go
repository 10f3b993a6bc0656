// Package leader decides which broker does the background work, and runs that work.
//
// One broker of an installation leads. It empties what retention has outlived, removes the segments of deleted queues
// and clears the registry. Nothing depends on there being a leader for a while, and nothing breaks when there are two
// at once: the leader only makes things cheaper. So this package looks for a leader eagerly, and lets go of it at the
// first doubt.
//
// # Three things that keep two leaders apart
//
// The lock: a session level advisory lock on a connection of its own (Session). The server frees it as soon as that
// connection is gone, and after one lease without a word on it. It excludes, but only as long as both sides believe it.
//
// The trust window: an elector believes that it leads only until the moment before it asked its last answered question,
// plus the lease, minus a margin, on the local monotonic clock. Time is counted from before the question, so a slow
// answer can only shorten the trust. The server counts its idle time from when the question arrived, which is later:
// trust ends before the server can give the lock to somebody else.
//
// The fence: winning raises the epoch in the database, and each job transaction begins by reading that row under a
// shared row lock and comparing (timeline, epoch, start id). A leader that was frozen and wakes up cannot commit.
//
// # States
//
//	                    lock refused, or no answer
//	                   +-------------------------+
//	                   v                         |
//	 start ------> following --- its time ---> asking
//	               ^       ^                     |
//	               |       |                     | lock granted
//	               |       |                     v
//	               |       +---- no answer -- winning      raises the epoch while it holds the lock
//	               |                             |
//	session closed |                             | epoch raised, and trust not over
//	and jobs ended |                             v
//	               |                          leading      asks a heartbeat every third of the lease
//	               |                             |
//	               |                             | error, doubt, trust over, resign, stop, or the jobs ended
//	               |                             v
//	               +------------------------- yielding ---- after stop ----> stopped
//
// following: waits for its next try, every second give or take a fifth. A hint that the leader has left brings one try
// forward to within 200 ms. After a resignation the broker sits out 5 s, so that another one wins. A session that must
// not lead (behind a transaction pooler, say) is tried again only once a minute.
//
// asking: opens the session if there is none, and asks for the lock once. It never waits for the lock, and never asks
// again while it holds it: such locks stack.
//
// winning: raises the epoch. That waits for the job transactions of the last leader, which are short by construction.
//
// leading: the leader context is alive, Config.Lead runs in it.
//
// yielding: the leader context has been cancelled with a *LostError as its cause. When leadership was given up in good
// order, the jobs are waited for (bounded), then the row is vacated, the lock freed, the session closed, and
// Config.Resigned called, so that the mesh can tell the others. Otherwise the session is closed first. In either case
// the next campaign begins only when the jobs have returned.
//
// # Failures
//
// An error on the session (a broken connection, a timeout, a cancelled question) closes it for good: an answer that
// arrives late could be taken for that of the next question, and a lock might have been granted behind our back.
//
// The backend is killed, the server restarts or fails over: the heartbeat fails, or the trust window ends, whichever
// comes first. The lock is gone with the backend.
//
// This process is frozen for longer than a lease: the server ends the idle session and frees the lock, another broker
// raises the epoch. When this one wakes up its timer is overdue, so it steps down, and the fence refuses what its jobs
// had in flight. The monotonic clock of a suspended machine may stand still meanwhile: then the next heartbeat finds out.
//
// This process has vanished, and its session lingers: a broker whose mesh says that it is dead looks at its last stamp, and
// ends the session if that is older than two thirds of a lease by the server's clock (Holding). The mesh alone ends nobody.
//
// A standby is promoted: it holds no locks, and may not have heard of the last epoch. It is on another timeline, which is
// part of what the fence compares.
//
// The database is silent: trust ends on the local clock alone.
//
// # What callers may assume
//
// The context given to Config.Lead is cancelled no later than the end of the trust window, and its cause says why.
// There is never more than one Lead call running in an Elector. Status agrees with that context. Everything the Elector
// starts has ended when Run returns.
//
// What callers may not assume: that nobody else leads while that context is alive. A process can be frozen between any
// two instructions. That is what the fence is for.
package leader
