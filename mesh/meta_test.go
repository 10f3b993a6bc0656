package mesh

import (
	"strings"
	"testing"

	"github.com/hashicorp/memberlist"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestTheLargestMetaIsFarFromTheLimitOfTheLibrary(t *testing.T) {
	t.Parallel()
	m := Meta{
		StartID: originA, Frames: FrameRange{255, 255}, Schema: SchemaRange{1<<32 - 1, 1<<32 - 1},
		Draining: true, Leader: true, Build: strings.Repeat("b", buildLimit), HTTP: strings.Repeat("h", httpLimit),
	}
	data := encodeMeta(m)
	require.Len(t, data, 222)
	require.Less(t, len(data), memberlist.MetaMaxSize)
	decoded, err := decodeMeta(data)
	require.NoError(t, err)
	require.Equal(t, m, decoded)
}

func TestMetaLayoutIsPinned(t *testing.T) {
	t.Parallel()
	m := Meta{
		StartID: originA, Frames: FrameRange{1, 2}, Schema: SchemaRange{Knows: 3, Needs: 2}, Leader: true,
		Build: "0.1.0", HTTP: "h:1",
	}
	want := "\x01" + string(originA[:]) + "\x01\x02" + "\x00\x00\x00\x03" + "\x00\x00\x00\x02" + "\x02" + "\x050.1.0" + "\x03h:1"
	require.Equal(t, want, string(encodeMeta(m)))
	t.Run("a later layout is read as far as it is known", func(t *testing.T) {
		t.Parallel()
		later := []byte(want + "\x07more")
		later[0] = 9
		decoded, err := decodeMeta(later)
		require.NoError(t, err)
		require.Equal(t, m, decoded)
	})
	t.Run("what cannot be read speaks v1 only", func(t *testing.T) {
		t.Parallel()
		for n := range len(want) {
			decoded, err := decodeMeta([]byte(want[:n]))
			require.Error(t, err)
			require.Equal(t, Meta{Frames: FrameRange{1, 1}}, decoded)
		}
		zero := []byte(want)
		zero[0] = 0
		_, err := decodeMeta(zero)
		require.Error(t, err)
	})
}

func FuzzDecodeMeta(f *testing.F) {
	f.Add(encodeMeta(Meta{StartID: originA, Frames: FrameRange{1, 2}, Build: "1", HTTP: "h"}))
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := decodeMeta(data)
		if err != nil {
			require.Equal(t, v1Only, m.Frames)
			return
		}
		again, err := decodeMeta(encodeMeta(m))
		require.NoError(t, err)
		require.Equal(t, m, again)
	})
}

func TestNodeNamesCanBeTakenApart(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[A-Za-z0-9._-]{1,64}`).Draw(t, "name")
		gotName, gotStart := splitNodeName(nodeName(name, originA))
		require.Equal(t, name, gotName)
		require.Equal(t, originA, gotStart)
	})
	name, start := splitNodeName("somebody")
	require.Equal(t, "somebody", name)
	require.Zero(t, start)
}
