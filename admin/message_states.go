package admin

import (
	"context"
	"time"

	"github.com/google/uuid"

	"waggle/pg"
)

// MessageStatus is how far a message is. The zero value stands for any.
type MessageStatus string

// A message is a dead letter when any group gave it up.
const (
	MessagePending    MessageStatus = "pending"
	MessageProcessing MessageStatus = "processing"
	MessageCompleted  MessageStatus = "completed"
	MessageDeadLetter MessageStatus = "dead_letter"
)

// queueMode is the group of pops that name none. It judges where no group is named.
const queueMode = "__QUEUE_MODE__"

// Mode tells by whom messages are consumed.
type Mode struct {
	HasQueueMode bool
	Groups       int64
}

// Type is the mode in one word.
func (m Mode) Type() string {
	switch {
	case m.HasQueueMode && m.Groups > 0:
		return "hybrid"
	case m.HasQueueMode:
		return "queue"
	case m.Groups > 0:
		return "bus"
	}
	return "none"
}

// GroupView is a message as one group sees it.
type GroupView struct {
	Group    string
	Consumed bool
	// LeaseExpiresAt is zero unless the message is inside a live lease of the group.
	LeaseExpiresAt time.Time
}

// standing is what is known of the groups of one partition, and of its dead letters where those were read.
type standing struct {
	groups  []pg.MessageMark
	letters map[int64]bool
}

// judgement is a message as its partition's groups see it together.
type judgement struct {
	status         MessageStatus
	queueStatus    MessageStatus // empty without a queue-mode cursor
	consumedBy     int
	groups         int
	leaseExpiresAt time.Time
}

// judge follows section 6.3 of the contract: the named groups decide where there are any, else queue mode does; without
// anybody a message is pending.
func (s *standing) judge(offset int64) judgement {
	var j judgement
	leased := false
	for i := range s.groups {
		mark := &s.groups[i]
		status := markStatus(mark, offset)
		if mark.Group == queueMode {
			j.queueStatus = status
			continue
		}
		j.groups++
		switch status {
		case MessageCompleted:
			j.consumedBy++
		case MessageProcessing:
			leased = true
		}
	}
	switch {
	case j.groups == 0 && j.queueStatus == "":
		j.status = MessagePending
	case j.groups == 0:
		j.status = j.queueStatus
	case leased:
		j.status = MessageProcessing
	case j.consumedBy == j.groups:
		j.status = MessageCompleted
	default:
		j.status = MessagePending
	}
	if j.status == MessageProcessing {
		j.leaseExpiresAt = s.leaseEnd(offset, j.groups > 0)
	}
	if s.letters[offset] {
		j.status = MessageDeadLetter
	}
	return j
}

// leaseEnd is when the last lease ends that the message is inside of.
func (s *standing) leaseEnd(offset int64, named bool) (last time.Time) {
	for i := range s.groups {
		mark := &s.groups[i]
		if (mark.Group != queueMode) == named && markStatus(mark, offset) == MessageProcessing && mark.LeaseExpires.After(last) {
			last = *mark.LeaseExpires
		}
	}
	return last
}

func (s *standing) views(offset int64) []GroupView {
	views := make([]GroupView, len(s.groups))
	for i := range s.groups {
		mark := &s.groups[i]
		views[i].Group = mark.Group
		switch markStatus(mark, offset) {
		case MessageCompleted:
			views[i].Consumed = true
		case MessageProcessing:
			views[i].LeaseExpiresAt = *mark.LeaseExpires
		}
	}
	return views
}

func markStatus(mark *pg.MessageMark, offset int64) MessageStatus {
	switch {
	case offset <= mark.Committed:
		return MessageCompleted
	case mark.LeasedTo != nil && offset <= *mark.LeasedTo:
		return MessageProcessing
	}
	return MessagePending
}

// standings are those of all partitions that a call has met.
type standings map[int64]*standing

// meet reads what is not known yet of the segments' partitions, and their dead letters.
func (all standings) meet(ctx context.Context, db *pg.DB, segments []pg.SegmentRef) error {
	var fresh []int64
	for _, s := range segments {
		if all[s.Partition] == nil {
			all[s.Partition] = &standing{letters: map[int64]bool{}}
			fresh = append(fresh, s.Partition)
		}
	}
	if len(fresh) > 0 {
		marks, err := db.MessageMarks(ctx, fresh)
		if err != nil {
			return err
		}
		for _, mark := range marks {
			all[mark.Partition].groups = append(all[mark.Partition].groups, mark)
		}
	}
	letters, err := db.MessageLetters(ctx, segments)
	if err != nil {
		return err
	}
	for _, at := range letters {
		all[at.Partition].letters[at.Offset] = true
	}
	return nil
}

// mode reads which groups there are in the queues that a filter means.
func (r *Reader) mode(ctx context.Context, tenant uuid.UUID, queue, namespace, task *string) (Mode, error) {
	has, groups, err := r.db.MessageMode(ctx, pg.MessageFilter{Tenant: tenant, Queue: queue, Namespace: namespace, Task: task})
	return Mode{HasQueueMode: has, Groups: groups}, err
}
