package jsonwire

import (
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/google/uuid"
)

// hex4 reads four hexadecimal digits, or returns -1. raw holds at least four bytes.
func hex4(raw []byte) rune {
	var r rune
	for _, c := range raw[:4] {
		switch {
		case c-'0' <= 9:
			r = r<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return -1
		}
	}
	return r
}

var unescaped = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// unescape appends the text of the checked string contents raw. Halves of a surrogate pair that stand alone become
// U+FFFD, as encoding/json has it.
func unescape(dst, raw []byte) []byte {
	for i := 0; i < len(raw); {
		if raw[i] != '\\' {
			dst = append(dst, raw[i])
			i++
			continue
		}
		if raw[i+1] != 'u' {
			dst = append(dst, unescaped[raw[i+1]])
			i += 2
			continue
		}
		r := hex4(raw[i+2:])
		i += 6
		if utf16.IsSurrogate(r) {
			pair := rune(utf8.RuneError)
			if i+6 <= len(raw) && raw[i] == '\\' && raw[i+1] == 'u' {
				pair = utf16.DecodeRune(r, hex4(raw[i+2:]))
			}
			if pair != utf8.RuneError {
				i += 6
			}
			r = pair
		}
		dst = utf8.AppendRune(dst, r)
	}
	return dst
}

const hexDigits = "0123456789abcdef"

// AppendString appends text as a JSON string.
func AppendString[T string | []byte](dst []byte, text T) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(text); {
		if c := text[i]; c < utf8.RuneSelf {
			if c >= 0x20 && c != '"' && c != '\\' {
				i++
				continue
			}
			dst = append(dst, text[start:i]...)
			dst = appendEscape(dst, c)
			i++
			start = i
			continue
		}
		r, size := decodeRune(text[i:])
		if r == utf8.RuneError && size == 1 {
			dst = append(dst, text[start:i]...)
			dst = append(dst, "\ufffd"...)
			i++
			start = i
			continue
		}
		i += size
	}
	dst = append(dst, text[start:]...)
	return append(dst, '"')
}

func decodeRune[T string | []byte](text T) (rune, int) {
	var front [utf8.UTFMax]byte
	return utf8.DecodeRune(front[:copy(front[:], text)])
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
}

// AppendUUID appends id as a JSON string in its lower-case form.
func AppendUUID(dst []byte, id uuid.UUID) []byte {
	var text [38]byte
	at := 0
	put := func(c byte) { text[at] = c; at++ }
	put('"')
	for i, b := range id {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			put('-')
		}
		put(hexDigits[b>>4])
		put(hexDigits[b&0xf])
	}
	put('"')
	return append(dst, text[:]...)
}

// AppendMicros appends t as a JSON string in UTC with six decimals.
func AppendMicros(dst []byte, t time.Time) []byte {
	return t.UTC().AppendFormat(dst, `"2006-01-02T15:04:05.000000Z"`)
}

// AppendMillis appends t as a JSON string in UTC with three decimals.
func AppendMillis(dst []byte, t time.Time) []byte {
	return t.UTC().AppendFormat(dst, `"2006-01-02T15:04:05.000Z"`)
}
