package jsonwire

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// accepted says whether data is one document for the scanner; raw is the value in it.
func accepted(data []byte) (raw []byte, err error) {
	var s Scanner
	s.Reset(data)
	raw = s.Raw()
	return raw, s.End()
}

// depthOf counts how deep the brackets outside strings of a valid document go.
func depthOf(data []byte) int {
	depth, deepest, inString := 0, 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}

func requireSameVerdict(t require.TestingT, data []byte) {
	want := json.Valid(data) && utf8.Valid(data)
	if want && depthOf(data) > MaxDepth {
		want = false
	}
	raw, err := accepted(data)
	require.Equal(t, want, err == nil, "document %q: %v", data, err)
	if want {
		require.Equal(t, string(bytes.Trim(data, " \t\r\n")), string(raw))
	}
}

var documents = []string{
	``, ` `, `null`, ` null `, `nul`, `nulll`, `true`, `false`, `tru`, `True`,
	`0`, `-0`, `01`, `-`, `1.`, `.5`, `1.5`, `1e5`, `1E+5`, `1e-5`, `1e`, `1e+`, `+1`, `1.e5`, `0x10`, `1 2`, `NaN`, `-Infinity`, `00`, `-01`,
	`""`, `"a"`, `"a`, `"\"`, `"\\"`, `"\q"`, `"\u00e9"`, `"\u00E9"`, `"\u00g9"`, `"\u00"`, `"\ud800"`, `"\ud800\udc00"`, `"\udc00\ud800"`, `"\ud800\u0041"`,
	"\"a\nb\"", "\"\x00\"", "\"\x1f\"", "\"\x7f\"", "\"\xff\"", "\"\xc3\xa9\"", "\"\xed\xa0\x80\"", "\xef\xbb\xbf1",
	`"0123456789abcdef\"0123456789"`, `"01234567` + "\x01" + `"`, `"éééééééééééé\n"`,
	`[]`, `[ ]`, `[1]`, `[1,]`, `[,1]`, `[1 2]`, `[1,2`, `[`, `]`, `[}`, `{]`, `{"a":[}`, `[[[]]]`, `[{}]`,
	`{}`, `{ }`, `{"a":1}`, `{"a":1,}`, `{,}`, `{"a"}`, `{"a":}`, `{a:1}`, `{1:1}`, `{"a":1 "b":2}`, `{"a" : 1 , "b" : [ 2 ] }`, `{"a":1,"a":2}`, `{"a":1`, `{"a`, `{"a":1,`,
	`{}{}`, `1,`, `// x`, "\u00a01", "\v1", `{"a":1}x`, `'a'`,
}

func TestTheScannerAcceptsWhatEncodingJSONAccepts(t *testing.T) {
	t.Parallel()
	for _, document := range documents {
		requireSameVerdict(t, []byte(document))
	}
	for c := range 256 { // every byte at every place of a word
		for at := range 16 {
			text := []byte(`"0123456789abcdefghijklmn"`)
			text[at+1] = byte(c)
			requireSameVerdict(t, text)
		}
	}
	for _, depth := range []int{1, MaxDepth - 1, MaxDepth, MaxDepth + 1, MaxDepth + 64, 3 * MaxDepth} {
		requireSameVerdict(t, []byte(strings.Repeat("[", depth)+strings.Repeat("]", depth)))
		requireSameVerdict(t, []byte(strings.Repeat(`{"a":[`, depth/2)+"1"+strings.Repeat("]}", depth/2)))
		requireSameVerdict(t, []byte(strings.Repeat("[", depth)))
	}
}

func TestTheDepthLimitIsExact(t *testing.T) {
	t.Parallel()
	_, err := accepted([]byte(strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth)))
	require.NoError(t, err)
	_, err = accepted([]byte(strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1)))
	var syntax *SyntaxError
	require.ErrorAs(t, err, &syntax)
	require.Equal(t, SyntaxError{Offset: MaxDepth, Text: "nested too deep"}, *syntax)
}

func value(depth int) *rapid.Generator[any] {
	leaves := []*rapid.Generator[any]{
		rapid.Just[any](nil),
		rapid.Bool().AsAny(),
		rapid.Float64Range(-1e300, 1e300).AsAny(),
		rapid.Int().AsAny(),
		rapid.String().AsAny(),
	}
	if depth > 0 {
		leaves = append(leaves,
			rapid.SliceOfN(value(depth-1), 0, 4).AsAny(),
			rapid.MapOfN(rapid.String(), value(depth-1), 0, 4).AsAny())
	}
	return rapid.OneOf(leaves...)
}

func TestBrokenDocumentsGetTheSameVerdict(t *testing.T) {
	t.Parallel()
	pieces := rapid.SampledFrom([]string{
		"{", "}", "[", "]", ",", ":", `"`, `\`, `\u`, "d8", "0", "-", "1", ".", "e", "+", " ", "\n", "true", "null", "\x01", "\xff", "é", `"a"`, "",
	})
	rapid.Check(t, func(t *rapid.T) {
		data, err := json.Marshal(value(4).Draw(t, "value"))
		require.NoError(t, err)
		requireSameVerdict(t, data)
		for range rapid.IntRange(1, 3).Draw(t, "edits") {
			at := rapid.IntRange(0, len(data)).Draw(t, "at")
			end := min(len(data), at+rapid.IntRange(0, 2).Draw(t, "cut"))
			data = append(append(append([]byte{}, data[:at]...), pieces.Draw(t, "piece")...), data[end:]...)
			requireSameVerdict(t, data)
		}
	})
}

func FuzzScanner(f *testing.F) {
	for _, document := range documents {
		f.Add([]byte(document))
	}
	f.Fuzz(func(t *testing.T, data []byte) { requireSameVerdict(t, data) })
}

func FuzzString(f *testing.F) {
	f.Add("plain")
	f.Add("\x00\"\\\u2028\xff\xed\xa0\x80é")
	f.Fuzz(func(t *testing.T, text string) { requireStringRoundTrip(t, text) })
}

func requireStringRoundTrip(t require.TestingT, text string) {
	want := strings.Builder{}
	for _, r := range text { // a range loop turns each stray byte into U+FFFD
		want.WriteRune(r)
	}
	written := AppendString(nil, text)
	require.Equal(t, written, AppendString(nil, []byte(text)))

	var parsed string
	require.NoError(t, json.Unmarshal(written, &parsed))
	require.Equal(t, want.String(), parsed)

	var s Scanner
	s.Reset(written)
	read, ok := s.String()
	require.True(t, ok)
	require.NoError(t, s.End())
	require.Equal(t, want.String(), string(read))
}

func TestWrittenStringsParseBack(t *testing.T) {
	t.Parallel()
	for c := range 256 {
		requireStringRoundTrip(t, string([]byte{'a', byte(c), 'b'}))
	}
	rapid.Check(t, func(t *rapid.T) {
		requireStringRoundTrip(t, rapid.String().Draw(t, "text"))
		requireStringRoundTrip(t, string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")))
	})
}

func TestReadStringsEqualEncodingJSON(t *testing.T) {
	t.Parallel()
	parts := rapid.SampledFrom([]string{`\n`, `\/`, `\"`, `\\`, `\b\f\r\t`, `\u0041`, `\ud83d\ude00`, `\ud83d`, `\ude00`, `\u0000`, "é", "plain text", ""})
	rapid.Check(t, func(t *rapid.T) {
		document := `"` + strings.Join(rapid.SliceOf(parts).Draw(t, "parts"), "") + `"`
		var want string
		require.NoError(t, json.Unmarshal([]byte(document), &want))
		var s Scanner
		s.Reset([]byte(document))
		got, ok := s.String()
		require.True(t, ok)
		require.Equal(t, want, string(got))
	})
}

func TestWalkingADocument(t *testing.T) {
	t.Parallel()
	var s Scanner
	s.Reset([]byte(` { "a" : [ 1 , -2 , 9223372036854775807 ] , "\u0062" : { } , "c" : null , "d" : { "x" : [ ] } } `))
	require.True(t, s.BeginObject())
	var keys []string
	var numbers []int64
	for key, ok := s.NextKey(); ok; key, ok = s.NextKey() {
		keys = append(keys, string(key))
		switch string(key) {
		case "a":
			require.True(t, s.BeginArray())
			for s.NextElement() {
				n, ok := s.Int()
				require.True(t, ok)
				numbers = append(numbers, n)
			}
		case "b":
			require.True(t, s.BeginObject())
			_, ok := s.NextKey()
			require.False(t, ok)
		case "c":
			require.True(t, s.Null())
		default:
			require.Equal(t, `{ "x" : [ ] }`, string(s.Raw()))
		}
	}
	require.NoError(t, s.End())
	require.Equal(t, []string{"a", "b", "c", "d"}, keys)
	require.Equal(t, []int64{1, -2, math.MaxInt64}, numbers)
}

func TestWalkingRefusesBrokenContainers(t *testing.T) {
	t.Parallel()
	for _, document := range []string{`[1,]`, `[,]`, `[1 2]`, `[1`, `[`, `{"a":1`, `[1}`, `[1]]`, `[]x`} {
		var s Scanner
		s.Reset([]byte(document))
		s.BeginArray()
		for s.NextElement() {
			s.Raw()
		}
		require.Error(t, s.End(), document)
	}
	for _, document := range []string{`{"a":1,}`, `{,}`, `{"a" 1}`, `{"a":1 "b":2}`, `{"a":1`, `{a:1}`, `[]`, `{"a":1]`, `{"a":}`} {
		var s Scanner
		s.Reset([]byte(document))
		s.BeginObject()
		for _, ok := s.NextKey(); ok; _, ok = s.NextKey() {
			s.Raw()
		}
		require.Error(t, s.End(), document)
	}
}

func TestIntegersAreExact(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"0": 0, "-0": 0, "7": 7, "-9223372036854775808": math.MinInt64, "9223372036854775807": math.MaxInt64,
	} {
		var s Scanner
		s.Reset([]byte(text))
		got, ok := s.Int()
		require.True(t, ok, text)
		require.Equal(t, want, got)
		require.NoError(t, s.End())
	}
	for _, text := range []string{"9223372036854775808", "-9223372036854775809", "1.0", "1e2", `"1"`, "true", "99999999999999999999", "-", "01"} {
		var s Scanner
		s.Reset([]byte(text))
		_, ok := s.Int()
		require.False(t, ok && s.End() == nil, text)
	}
}

func TestIDsAndTimes(t *testing.T) {
	t.Parallel()
	id := uuid.MustParse("019A7C10-0000-7000-8000-00000000000A")
	require.Equal(t, `"019a7c10-0000-7000-8000-00000000000a"`, string(AppendUUID(nil, id)))
	at := time.Date(2031, 4, 5, 8, 7, 8, 123_456_789, time.FixedZone("", 2*3600))
	require.Equal(t, `"2031-04-05T06:07:08.123456Z"`, string(AppendMicros(nil, at)))
	require.Equal(t, `"2031-04-05T06:07:08.123Z"`, string(AppendMillis(nil, at)))
	require.Equal(t, `"2031-04-05T06:07:08.000000Z"`, string(AppendMicros(nil, at.Truncate(time.Second))))
}
