package jsonwire

import (
	"fmt"
	"math"
	"unicode/utf8"
)

// SyntaxError says what was wrong and at which byte of the document.
type SyntaxError struct {
	Offset int
	Text   string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("%s at byte %d", e.Text, e.Offset) }

// Scanner walks one document from front to back without building it. Its error is sticky: after the first one every
// method does nothing, so that a caller may check Err once at the end. Bytes it returns are a part of the document, or
// of a scratch area when the text had escapes; the latter are good until the next call.
type Scanner struct {
	data    []byte
	pos     int
	first   bool // the container at pos was just entered
	key     span // of the value at pos, quotes included; empty outside of objects
	array   span // key of the array that was entered last
	err     error
	scratch []byte
}

// span is a place in the document.
type span struct{ from, to int }

// Reset starts on a new document, keeping the scratch area. A document that is not valid UTF-8 fails here.
func (s *Scanner) Reset(data []byte) {
	s.data, s.pos, s.first, s.err = data, 0, false, nil
	s.key, s.array = span{}, span{}
	if !utf8.Valid(data) {
		s.pos = firstInvalid(data)
		s.fail("invalid UTF-8")
	}
}

// Err is the first error, or nil.
func (s *Scanner) Err() error { return s.err }

// Fail records an error of the caller's own unless there is one already.
func (s *Scanner) Fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

func (s *Scanner) fail(text string) {
	if s.err == nil {
		s.err = &SyntaxError{Offset: s.pos, Text: text}
	}
}

// maxNamed is how long a key may be that an error repeats.
const maxNamed = 100

// mismatch fails because the value at pos is of another kind than the caller wants, and says which field it is.
func (s *Scanner) mismatch(text string) {
	if length := s.key.to - s.key.from; length > 0 && length <= maxNamed && s.err == nil {
		text += " for " + string(s.data[s.key.from:s.key.to])
	}
	s.fail(text)
}

// Peek is the first byte of the next value, member or closing bracket, 0 at the end of the document or after an error.
func (s *Scanner) Peek() byte {
	if s.err != nil {
		return 0
	}
	s.pos = skipSpace(s.data, s.pos)
	if s.pos == len(s.data) {
		return 0
	}
	return s.data[s.pos]
}

// BeginObject enters an object. The caller then loops over NextKey and consumes one value for each key.
func (s *Scanner) BeginObject() bool { return s.begin('{', "expected an object") }

// BeginArray enters an array. The caller then loops over NextElement and consumes one value each time. Errors about the
// elements name the key of the array; of arrays in arrays, the inner one.
func (s *Scanner) BeginArray() bool {
	s.array = s.key
	return s.begin('[', "expected an array")
}

func (s *Scanner) begin(open byte, otherwise string) bool {
	if s.Peek() != open {
		s.mismatch(otherwise)
		return false
	}
	s.pos++
	s.first = true
	return true
}

// NextKey steps to the next member and returns its key, or false when the object ends here.
func (s *Scanner) NextKey() ([]byte, bool) {
	if !s.next('}') {
		return nil, false
	}
	s.Peek()
	s.key = span{}
	at := s.pos
	key, ok := s.String()
	if !ok {
		return nil, false
	}
	s.key = span{at, s.pos}
	if s.Peek() != ':' {
		s.fail("expected ':'")
		return nil, false
	}
	s.pos++
	return key, true
}

// NextElement steps to the next element, or returns false when the array ends here.
func (s *Scanner) NextElement() bool {
	s.key = s.array
	return s.next(']')
}

func (s *Scanner) next(end byte) bool {
	c := s.Peek()
	first := s.first
	s.first = false
	switch {
	case s.err != nil:
		return false
	case c == end:
		s.pos++
		return false
	case first:
		return true
	case c != ',':
		s.fail("expected ',' or '" + string(end) + "'")
		return false
	}
	s.pos++
	return true
}

// Raw consumes one value of any kind and returns its bytes as they stand in the document.
func (s *Scanner) Raw() []byte {
	if s.Peek() == 0 {
		s.fail("expected a value")
		return nil
	}
	end, text := skipValue(s.data, s.pos)
	if text != "" {
		s.pos = end
		s.fail(text)
		return nil
	}
	raw := s.data[s.pos:end:end]
	s.pos = end
	return raw
}

// Null consumes a null if one is next.
func (s *Scanner) Null() bool {
	if s.Peek() != 'n' {
		return false
	}
	return s.Raw() != nil
}

// String consumes a string and returns its text without escapes.
func (s *Scanner) String() ([]byte, bool) {
	if s.Peek() != '"' {
		s.mismatch("expected a string")
		return nil, false
	}
	end, escaped, text := skipString(s.data, s.pos+1)
	if text != "" {
		s.pos = end
		s.fail(text)
		return nil, false
	}
	inner := s.data[s.pos+1 : end-1]
	s.pos = end
	if escaped {
		s.scratch = unescape(s.scratch[:0], inner)
		inner = s.scratch
	}
	return inner, true
}

// Int consumes an integer that fits 64 bits. A number with a fraction or an exponent is refused.
func (s *Scanner) Int() (int64, bool) {
	c := s.Peek()
	if c != '-' && (c < '0' || c > '9') {
		s.mismatch("expected an integer")
		return 0, false
	}
	start := s.pos
	n, ok := parseInt(s.Raw())
	if !ok && s.err == nil {
		s.pos = start
		s.mismatch("expected an integer")
	}
	return n, ok
}

// End fails unless nothing but white space is left.
func (s *Scanner) End() error {
	if s.Peek() != 0 || s.pos < len(s.data) {
		s.fail("unexpected text after the value")
	}
	return s.err
}

func parseInt(raw []byte) (int64, bool) {
	digits := raw
	negative := len(raw) > 0 && raw[0] == '-'
	if negative {
		digits = raw[1:]
	}
	if len(digits) == 0 || len(digits) > 19 {
		return 0, false
	}
	var n uint64
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	if negative {
		return -int64(n), n <= 1<<63
	}
	return int64(n), n <= math.MaxInt64
}

func firstInvalid(data []byte) int {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return len(data)
}
