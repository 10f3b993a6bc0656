package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// words are the types that a form can name, by what a JSON value looks like.
var words = map[string]*regexp.Regexp{
	"any":    regexp.MustCompile(``),
	"null":   regexp.MustCompile(`^null$`),
	"bool":   regexp.MustCompile(`^(true|false)$`),
	"true":   regexp.MustCompile(`^true$`),
	"false":  regexp.MustCompile(`^false$`),
	"int":    regexp.MustCompile(`^-?[0-9]+$`),
	"number": regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?$`),
	"string": regexp.MustCompile(`^"`),
	"object": regexp.MustCompile(`^\{`),
	"list":   regexp.MustCompile(`^\[`),
	"uuid":   regexp.MustCompile(`^"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"$`),
	"v7":     regexp.MustCompile(`^"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"$`),
	"micros": regexp.MustCompile(`^"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"$`),
	"millis": regexp.MustCompile(`^"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"$`),
	"secs":   regexp.MustCompile(`^"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"$`),
}

// conforms compares JSON with a form: {name:form,…} for an object that has these names in this order, [form] for a list
// of such, a word of the table above, or several with | between. A name with ? behind may be missing. Clients ignore what
// they do not know, so that further names may stand anywhere.
func conforms(raw []byte, form string) error {
	f, rest, err := parseForm(form)
	if err != nil || rest != "" {
		return fmt.Errorf("bad form %q near %q: %w", form, rest, err)
	}
	return f.check("", bytes.TrimSpace(raw))
}

type form struct {
	names    []string
	optional []bool
	values   []form
	item     *form
	words    []string
}

func parseForm(text string) (form, string, error) {
	switch {
	case strings.HasPrefix(text, "["):
		item, rest, err := parseForm(text[1:])
		if err != nil || !strings.HasPrefix(rest, "]") {
			return form{}, rest, fmt.Errorf("list not closed: %w", err)
		}
		return form{item: &item}, rest[1:], nil
	case strings.HasPrefix(text, "{"):
		f := form{names: []string{}}
		for rest := strings.TrimPrefix(text, "{"); ; {
			if strings.HasPrefix(rest, "}") {
				return f, rest[1:], nil
			}
			name, after, found := strings.Cut(strings.TrimLeft(rest, ", \n\t"), ":")
			if !found {
				return form{}, rest, fmt.Errorf("no name")
			}
			value, after, err := parseForm(after)
			if err != nil {
				return form{}, after, err
			}
			name, optional := strings.CutSuffix(name, "?")
			f.names, f.optional, f.values = append(f.names, name), append(f.optional, optional), append(f.values, value)
			rest = strings.TrimLeft(after, " \n\t")
		}
	}
	end := strings.IndexAny(text, ",}]")
	if end < 0 {
		end = len(text)
	}
	f := form{words: strings.Split(strings.TrimSpace(text[:end]), "|")}
	for _, word := range f.words {
		if words[word] == nil && !strings.HasPrefix(word, "=") {
			return f, text, fmt.Errorf("unknown word %q", word)
		}
	}
	return f, text[end:], nil
}

func (f form) check(where string, raw []byte) error {
	switch {
	case f.item != nil:
		var items []json.RawMessage
		if len(raw) == 0 || raw[0] != '[' || json.Unmarshal(raw, &items) != nil {
			return fmt.Errorf("%s is no list: %s", where, raw)
		}
		for i, item := range items {
			if err := f.item.check(fmt.Sprintf("%s[%d]", where, i), item); err != nil {
				return err
			}
		}
		return nil
	case f.names != nil:
		names, values, err := fields(raw)
		if err != nil {
			return fmt.Errorf("%s is no object: %s", where, raw)
		}
		last := -1
		for i, name := range f.names {
			at := slices.Index(names, name)
			switch {
			case at < 0 && f.optional[i]:
				continue
			case at < 0:
				return fmt.Errorf("%s.%s is missing, there are %v", where, name, names)
			case at < last:
				return fmt.Errorf("%s.%s is out of order in %v", where, name, names)
			}
			last = at
			if err := f.values[i].check(where+"."+name, values[at]); err != nil {
				return err
			}
		}
		return nil
	}
	for _, word := range f.words {
		literal, isLiteral := strings.CutPrefix(word, "=")
		if isLiteral && string(raw) == `"`+literal+`"` || !isLiteral && words[word].Match(raw) {
			return nil
		}
	}
	return fmt.Errorf("%s is not %s: %s", where, strings.Join(f.words, " or "), raw)
}

// fields takes an object apart and keeps the order of its names.
func fields(raw []byte) (names []string, values []json.RawMessage, err error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
		return nil, nil, fmt.Errorf("no object: %w", err)
	}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return nil, nil, err
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return nil, nil, err
		}
		if slices.Contains(names, name.(string)) {
			return nil, nil, fmt.Errorf("%s stands there twice", name)
		}
		names, values = append(names, name.(string)), append(values, value)
	}
	return names, values, nil
}

func TestFormsTellRightFromWrong(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		raw, form string
		ok        bool
	}{
		{`{"a":1,"x":0,"b":null}`, "{a:int,b:string|null}", true},
		{`{"b":1,"a":1}`, "{a:int,b:int}", false},
		{`{"a":1}`, "{a:int,b:int}", false},
		{`{"a":1}`, "{a:int,b?:int}", true},
		{`{"a":1.5}`, "{a:int}", false},
		{`[{"a":"q"},{"a":"r"}]`, "[{a:=q|=r}]", true},
		{`[{"a":"s"}]`, "[{a:=q}]", false},
		{`{"a":[1,2],"t":"2031-04-05T06:07:08.123456Z"}`, "{a:[int],t:micros}", true},
		{`{"t":"2031-04-05T06:07:08.123Z"}`, "{t:micros}", false},
		{`{"a":1,"a":2}`, "{a:int}", false},
		{`{"a":{}}`, "{a:list}", false},
	} {
		if err := conforms([]byte(c.raw), c.form); c.ok {
			require.NoError(t, err)
		} else {
			require.Error(t, err, "%s against %s", c.raw, c.form)
		}
	}
}

type rawJSON = json.RawMessage

func unmarshal(raw []byte, into any) error { return json.Unmarshal(raw, into) }
