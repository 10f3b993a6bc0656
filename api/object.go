package api

import (
	"encoding/json"
	"fmt"
	"strconv"

	"waggle/api/jsonwire"
)

// object reads the fields of a JSON object that other routes than the hot ones take. Its errors are texts for the client.
type object map[string]json.RawMessage

// objectOf takes apart a value of a document that checkJSON has passed; false when it is no object. What it returns
// are pieces of the document. Of a repeated key the last one counts.
func objectOf(raw []byte) (object, bool) {
	var s jsonwire.Scanner
	s.Reset(raw)
	if s.Peek() != '{' {
		return nil, false
	}
	fields := object{}
	s.BeginObject()
	for key, ok := s.NextKey(); ok; key, ok = s.NextKey() {
		name := string(key)
		fields[name] = s.Raw()
	}
	return fields, s.End() == nil
}

// arrayOf takes an array apart like objectOf an object.
func arrayOf(raw []byte) ([]json.RawMessage, bool) {
	var s jsonwire.Scanner
	s.Reset(raw)
	if s.Peek() != '[' {
		return nil, false
	}
	items := []json.RawMessage{}
	s.BeginArray()
	for s.NextElement() {
		items = append(items, s.Raw())
	}
	return items, s.End() == nil
}

func textOf(raw []byte) (string, bool) {
	var s jsonwire.Scanner
	s.Reset(raw)
	if s.Peek() != '"' {
		return "", false
	}
	text, _ := s.String()
	return string(text), s.End() == nil
}

// text is a string; null and absent are the same. Required texts must be there.
func (o object) text(name string, required bool) (*string, error) {
	raw := o[name]
	if raw == nil || string(raw) == "null" {
		if required {
			return nil, fmt.Errorf("%s is required and must be a string", name)
		}
		return nil, nil
	}
	text, ok := textOf(raw)
	if !ok {
		return nil, fmt.Errorf("%s must be a string", name)
	}
	return &text, nil
}

// number is a whole number within the bounds; what lies above the upper one is refused too.
func (o object) number(name string, otherwise, low, high int64) (int64, error) {
	raw := o[name]
	if raw == nil || string(raw) == "null" {
		return otherwise, nil
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || n < low || n > high {
		return 0, fmt.Errorf("%s must be a whole number from %d to %d", name, low, high)
	}
	return n, nil
}

// texts is an array of strings; null and absent are the empty one.
func (o object) texts(name string) ([]string, error) {
	raw := o[name]
	if raw == nil || string(raw) == "null" {
		return nil, nil
	}
	items, ok := arrayOf(raw)
	if !ok {
		return nil, fmt.Errorf("%s must be an array of strings", name)
	}
	var texts []string
	for i, item := range items {
		text, ok := textOf(item)
		if !ok {
			return nil, fmt.Errorf("%s[%d] must be a string", name, i)
		}
		texts = append(texts, text)
	}
	return texts, nil
}

// flag is a boolean.
func (o object) flag(name string, otherwise bool) (bool, error) {
	switch raw := string(o[name]); raw {
	case "", "null":
		return otherwise, nil
	case "true", "false":
		return raw == "true", nil
	}
	return false, fmt.Errorf("%s must be true or false", name)
}
