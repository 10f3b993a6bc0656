package api

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	maxName          = 1024
	maxTransactionID = 65535
)

// checkName says what is wrong with a queue, partition or group name, if anything. Empty names are legal here: the
// contract lets a queue be called "".
func checkName(what, name string) error {
	switch {
	case len(name) > maxName:
		return fmt.Errorf("%s is longer than %d bytes", what, maxName)
	case hasControl(name):
		return fmt.Errorf("%s holds a control character", what)
	case !utf8.ValidString(name):
		return fmt.Errorf("%s is not valid UTF-8", what)
	}
	return nil
}

func checkOptional(what string, name *string) error {
	if name == nil {
		return nil
	}
	return checkName(what, *name)
}

// checkGroup checks the name of a consumer group, which may hold what other names may not.
func checkGroup(name string) error {
	if len(name) > maxName {
		return fmt.Errorf("consumerGroup is longer than %d bytes", maxName)
	}
	return nil
}

func hasControl(text string) bool {
	for i := range len(text) {
		if text[i] < 0x20 {
			return true
		}
	}
	return false
}

// groupName normalises a consumer group: storage cannot hold U+0000.
func groupName(name string) string { return strings.ReplaceAll(name, "\x00", "\ufffd") }

// messageNames are the partition id and the transaction id of a path that names a message. Only the latter may hold
// slashes.
func (x *exchange) messageNames() (partition, transaction string) {
	partition, transaction, _ = strings.Cut(x.names[0]+"/"+x.names[1], "/")
	return partition, transaction
}
