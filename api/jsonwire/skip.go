package jsonwire

import (
	"encoding/binary"
	"math/bits"
)

// MaxDepth is how deep arrays and objects of one value may be nested.
const MaxDepth = 512

// nesting is a stack of what encloses a place: one bit a level, set for an object. It lives on the goroutine's stack.
type nesting struct {
	levels [MaxDepth / 64]uint64
	depth  int
}

func (n *nesting) push(object uint64) bool {
	if n.depth == MaxDepth {
		return false
	}
	word, bit := n.depth/64%len(n.levels), n.depth%64
	n.levels[word] = n.levels[word]&^(1<<bit) | object<<bit
	n.depth++
	return true
}

func (n *nesting) inObject() bool {
	top := n.depth - 1
	return n.levels[top/64%len(n.levels)]>>(top%64)&1 == 1
}

func skipSpace(data []byte, i int) int {
	for i < len(data) {
		switch data[i] {
		case ' ', '\n', '\r', '\t':
			i++
		default:
			return i
		}
	}
	return i
}

// skipValue checks the value that begins at i and returns the place after it. A non-empty text says what is wrong
// at the returned place. The document must be valid UTF-8. Written with labels because this loop sees every byte of
// every message: a call a value costs a third of the speed.
func skipValue(data []byte, i int) (int, string) {
	var stack nesting
	var text string

value:
	i = skipSpace(data, i)
	if i >= len(data) {
		return i, "unexpected end of the document"
	}
	switch c := data[i]; {
	case c == '"':
		if i, _, text = skipString(data, i+1); text != "" {
			return i, text
		}
	case c == '{':
		if !stack.push(1) {
			return i, "nested too deep"
		}
		i = skipSpace(data, i+1)
		if i < len(data) && data[i] == '}' {
			i++
			stack.depth--
			goto after
		}
		goto key
	case c == '[':
		if !stack.push(0) {
			return i, "nested too deep"
		}
		i = skipSpace(data, i+1)
		if i < len(data) && data[i] == ']' {
			i++
			stack.depth--
			goto after
		}
		goto value
	case c == '-' || c-'0' <= 9:
		if i, text = skipNumber(data, i); text != "" {
			return i, text
		}
	case c == 't':
		if i, text = skipWord(data, i, "true"); text != "" {
			return i, text
		}
	case c == 'f':
		if i, text = skipWord(data, i, "false"); text != "" {
			return i, text
		}
	case c == 'n':
		if i, text = skipWord(data, i, "null"); text != "" {
			return i, text
		}
	default:
		return i, "expected a value"
	}

after:
	if stack.depth == 0 {
		return i, ""
	}
	i = skipSpace(data, i)
	if i >= len(data) {
		return i, "unexpected end of the document"
	}
	if object := stack.inObject(); data[i] == ',' {
		i++
		if object {
			i = skipSpace(data, i)
			goto key
		}
		goto value
	} else if object && data[i] == '}' || !object && data[i] == ']' {
		i++
		stack.depth--
		goto after
	}
	return i, "expected ',' or a closing bracket"

key:
	if i >= len(data) || data[i] != '"' {
		return i, "expected a key"
	}
	if i, _, text = skipString(data, i+1); text != "" {
		return i, text
	}
	i = skipSpace(data, i)
	if i >= len(data) || data[i] != ':' {
		return i, "expected ':'"
	}
	i++
	goto value
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// stops marks, by the high bit of each byte of word, the bytes that end a plain run of a string: a quote, a
// backslash or a control character. The lowest mark is exact; higher ones may be false.
func stops(word uint64) uint64 {
	return ((word - ones*0x20) | ((word ^ ones*'"') - ones) | ((word ^ ones*'\\') - ones)) & ^word & highs
}

// skipString returns the place after the closing quote of the string whose first character is at i.
func skipString(data []byte, i int) (end int, escaped bool, text string) {
	for {
		for i+8 <= len(data) {
			if marks := stops(binary.LittleEndian.Uint64(data[i:])); marks != 0 {
				i += bits.TrailingZeros64(marks) / 8
				break
			}
			i += 8
		}
		for i < len(data) && data[i] >= 0x20 && data[i] != '"' && data[i] != '\\' {
			i++
		}
		if i >= len(data) {
			return i, escaped, "unexpected end of the document"
		}
		switch data[i] {
		case '"':
			return i + 1, escaped, ""
		case '\\':
			escaped = true
			if i+1 >= len(data) {
				return i, escaped, "unexpected end of the document"
			}
			switch data[i+1] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
				i += 2
			case 'u':
				if i+6 > len(data) || hex4(data[i+2:]) < 0 {
					return i, escaped, "invalid \\u escape"
				}
				i += 6
			default:
				return i, escaped, "invalid escape"
			}
		default:
			return i, escaped, "control character in a string"
		}
	}
}

func skipNumber(data []byte, i int) (int, string) {
	if data[i] == '-' {
		i++
	}
	digits := func() bool {
		start := i
		for i < len(data) && data[i]-'0' <= 9 {
			i++
		}
		return i > start
	}
	if i < len(data) && data[i] == '0' {
		i++
	} else if !digits() {
		return i, "expected a digit"
	}
	if i < len(data) && data[i] == '.' {
		i++
		if !digits() {
			return i, "expected a digit"
		}
	}
	if i < len(data) && data[i]|0x20 == 'e' {
		i++
		if i < len(data) && (data[i] == '+' || data[i] == '-') {
			i++
		}
		if !digits() {
			return i, "expected a digit"
		}
	}
	return i, ""
}

func skipWord(data []byte, i int, word string) (int, string) {
	if len(data)-i < len(word) || string(data[i:i+len(word)]) != word {
		return i, "expected a value"
	}
	return i + len(word), ""
}
