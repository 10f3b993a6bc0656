package api

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// query holds the parameters of a URL, decoded as forms are: + means space. Stray bytes become U+FFFD.
type query map[string][]string

func parseQuery(raw string) query {
	q := query{}
	for raw != "" {
		var pair string
		pair, raw, _ = strings.Cut(raw, "&")
		if pair == "" {
			continue
		}
		key, value, _ := strings.Cut(pair, "=")
		key = strings.ToValidUTF8(percentDecode(key, true), "\ufffd")
		q[key] = append(q[key], strings.ToValidUTF8(percentDecode(value, true), "\ufffd"))
	}
	return q
}

// typed reads parameters that must parse where they are given: those of pops. Its first error sticks.
type typed struct {
	query query
	err   error
}

// one is the value of a parameter. A parameter given twice is refused: nobody can say which one was meant.
func (t *typed) one(name string) (string, bool) {
	values := t.query[name]
	if len(values) > 1 && t.err == nil {
		t.err = fmt.Errorf("duplicate field `%s`", name)
	}
	if len(values) == 0 {
		return "", false
	}
	return values[0], true
}

func (t *typed) text(name string) string {
	value, _ := t.one(name)
	return value
}

// optional tells an empty value from an absent one.
func (t *typed) optional(name string) *string {
	if value, ok := t.one(name); ok {
		return &value
	}
	return nil
}

// flag accepts exactly true and false.
func (t *typed) flag(name string) bool {
	value, ok := t.one(name)
	if ok && value != "true" && value != "false" && t.err == nil {
		t.err = fmt.Errorf("%s: provided string was not `true` or `false`", name)
	}
	return value == "true"
}

// optionalFlag tells false from absent.
func (t *typed) optionalFlag(name string) *bool {
	if _, ok := t.one(name); !ok {
		return nil
	}
	value := t.flag(name)
	return &value
}

// number accepts a decimal integer of 64 bits. What does not fit 32 bits, far beyond any use, is cut to them.
func (t *typed) number(name string, otherwise int) int {
	value, ok := t.one(name)
	if !ok {
		return otherwise
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil && t.err == nil {
		t.err = fmt.Errorf("%s: invalid integer", name)
	}
	return int(min(max(n, math.MinInt32), math.MaxInt32))
}

// absent says that the parameter is not there.
func (t *typed) absent(name string) bool { return len(t.query[name]) == 0 }

// loose reads parameters of management routes: an empty text counts as not given, and so does a number that does
// not parse.
func (q query) loose(name string) string {
	if values := q[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

func (q query) looseNumber(name string, otherwise int) int {
	n, err := strconv.Atoi(q.loose(name))
	if err != nil || n < 0 {
		return otherwise
	}
	return n
}
