package node_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waggle/client"
	"waggle/pg/pgtest"
)

// ghost is a broker that only the registry knows, so that a test decides when it confirms.
type ghost struct {
	t  *testing.T
	db *pgx.Conn
}

func newGhost(t *testing.T, db *pgx.Conn) *ghost {
	t.Helper()
	g := &ghost{t, db}
	g.exec(`insert into waggle.broker (start_id, name, version, http, mesh, system_needs, system_knows, record_knows, frame_min, frame_max, seen_at)
		values (gen_random_uuid(), 'ghost', '0', '', '127.0.0.1:1', 1, 1, 1, 1, 2, clock_timestamp() + interval '1 hour')`)
	return g
}

func (g *ghost) exec(sql string, args ...any) {
	g.t.Helper()
	_, err := g.db.Exec(g.t.Context(), sql, args...)
	require.NoError(g.t, err)
}

// confirm makes it a broker that works with the ring as it is.
func (g *ghost) confirm() {
	g.t.Helper()
	g.exec(`update waggle.broker set mesh_source = 'database', mesh_ring = (select mesh_ring from waggle.installation) where name = 'ghost'`)
}

func meshKeys(t *testing.T, m *member) client.MeshKeys {
	t.Helper()
	keys, err := newClient(t, m.url).MeshKeys(t.Context())
	require.NoError(t, err)
	return keys
}

// awaitStep waits until the rotation is in a step and nobody but the ghost is waited for.
func awaitStep(t *testing.T, ask *member, step string) client.MeshKeys {
	t.Helper()
	var keys client.MeshKeys
	eventually(t, "only the ghost has not confirmed step "+step, func() bool {
		keys = meshKeys(t, ask)
		return keys.Rotation != nil && keys.Rotation.Step == step && len(keys.Rotation.WaitingFor) == 1
	})
	require.Equal(t, "ghost", keys.Rotation.WaitingFor[0].Name)
	return keys
}

// requireWakes lets every broker of the cluster wake pops on every other one.
func (c cluster) requireWakes(t *testing.T, when string) {
	t.Helper()
	for i, consumer := range c {
		producer := c[(i+1)%len(c)]
		requireWake(t, producer, consumer, when)
		requireWake(t, consumer, producer, when)
	}
}

func requireWake(t *testing.T, producer, consumer *member, when string) {
	t.Helper()
	const wakes = `waggle_mesh_frames_in_total{kind="wake",version="2"}`
	before := consumer.metric(t, wakes)
	done := popBeside(t, newClient(t, consumer.url), client.PopRequest{Queue: "woken", Wait: true, AutoAck: true})
	consumer.awaitParked(t, 1)
	_, err := newClient(t, producer.url).Push(t.Context(), []client.Item{{Queue: "woken", Partition: "p"}})
	require.NoError(t, err)
	got := <-done
	require.NoError(t, got.err)
	require.Len(t, got.answer.Messages, 1)
	eventually(t, fmt.Sprintf("the wake from %s to %s arrives %s", producer.name, consumer.name, when), func() bool {
		return consumer.metric(t, wakes) > before
	})
}

// A rotation is resumed by the next leader in whichever step the last one dies, takes up who starts in the middle, and
// loses no packet.
func TestTheMeshKeyIsRotatedOverTheDeathOfLeaders(t *testing.T) {
	database := pgtest.New(t).URL
	c := startCluster(t, database, 3)
	c.awaitMesh(t)
	before := meshKeys(t, c[0])
	require.Len(t, before.Keys, 1)
	require.Len(t, before.Brokers, 3)
	for _, b := range before.Brokers {
		require.True(t, b.Confirmed, "%+v", b)
		require.Equal(t, before.Keys[0].Fingerprint, b.Fingerprint)
	}
	g := newGhost(t, connectTo(t, database))
	leader, epoch, _ := c.awaitLeader(t, c[0], 0)
	started, err := newClient(t, c[1].url).RotateMeshKey(t.Context())
	require.NoError(t, err)
	require.True(t, started)
	keys := awaitStep(t, c[0], "requested")
	require.Contains(t, keys.Rotation.WaitingFor[0].Reason, "does not understand rotation", "a ghost of an older build")
	require.Equal(t, before.Ring, keys.Ring, "nothing begins before all can follow")
	g.confirm()

	fingerprints := map[string]int{"install": 2, "use": 2, "remove": 1}
	for _, step := range []string{"install", "use", "remove"} {
		keys = awaitStep(t, leader, step)
		require.Len(t, keys.Keys, fingerprints[step])
		require.Equal(t, step == "install", keys.Keys[0].Fingerprint == before.Keys[0].Fingerprint, "which key encrypts in step %s", step)
		c.requireWakes(t, "in step "+step)

		gone := leader
		gone.kill()
		survivors := cluster{}
		for _, m := range c {
			if m != gone {
				survivors = append(survivors, m)
			}
		}
		leader, epoch, _ = c.awaitLeader(t, survivors[0], epoch)
		require.Equal(t, step, awaitStep(t, leader, step).Rotation.Step, "the death of a leader is no confirmation")
		survivors.requireWakes(t, "after the leader died in step "+step)
		// Who was killed counts as live for half a minute. That time has passed.
		g.exec("update waggle.broker set seen_at = seen_at - interval '1 minute' where name = $1", gone.name)
		gone.restart(t)
		c.awaitMesh(t)
		keys = awaitStep(t, gone, step)
		for _, b := range keys.Brokers {
			require.Equal(t, b.Name != "ghost", b.Confirmed, "%+v", b)
		}
		c.requireWakes(t, "after a broker started in step "+step)
		g.confirm()
	}
	var after client.MeshKeys
	eventually(t, "the rotation has ended", func() bool {
		after = meshKeys(t, c[0])
		return after.Rotation == nil
	})
	require.NotNil(t, after.LastRotated)
	require.Len(t, after.Keys, 1)
	require.NotEqual(t, before.Keys[0].Fingerprint, after.Keys[0].Fingerprint)
	for _, m := range c {
		require.Zero(t, m.metric(t, "waggle_mesh_undecryptable_total"), "no packet is lost for want of a key on %s", m.name)
	}
}

// The command rotates while pops are woken from broker to broker, and says what it does.
func TestTheRotateCommandLosesNoWake(t *testing.T) {
	c := startCluster(t, pgtest.New(t).URL, 3)
	c.awaitMesh(t)
	before := meshKeys(t, c[0])
	c.awaitLeader(t, c[0], 0)
	var said bytes.Buffer
	command := startProcess(t, nil, &said, "mesh", "rotate-key", "--url", strings.Join(c.urls(), ","))
	rounds := 0
	for running := true; running; rounds++ {
		select {
		case <-command.done:
			running = false
		default:
		}
		c.requireWakes(t, "while the key is rotated")
	}
	require.Zero(t, command.exitCode(t, patience), "%s %s", &said, command.log)
	t.Logf("%d rounds of six wakes:\n%s", rounds, &said)
	require.Contains(t, said.String(), "done: every broker uses ring ")
	after := meshKeys(t, c[0])
	require.Equal(t, before.Ring+3, after.Ring)
	for _, b := range after.Brokers {
		require.True(t, b.Confirmed)
		require.Equal(t, after.Keys[0].Fingerprint, b.Fingerprint)
	}
	for _, m := range c {
		require.Zero(t, m.metric(t, "waggle_mesh_undecryptable_total"), m.name)
	}

	said.Reset()
	ping := startProcess(t, nil, &said, "mesh", "ping", "--url", c[1].url)
	require.Zero(t, ping.exitCode(t, patience), &said)
	require.Regexp(t, `broker-2 +broker-1 +\S+ +alive +\d+\.\d\d +-`, said.String())
	require.Regexp(t, `broker-2 +broker-3 +\S+ +alive +\d+\.\d\d +-`, said.String())
}

// Where no hint says that the ring has changed, heartbeats do: here the leader has no mesh.
func TestTheMeshKeyIsRotatedWithoutHints(t *testing.T) {
	database := pgtest.New(t).URL
	c := startCluster(t, database, 2, "WAGGLE_NEVER_LEAD=true")
	alone := newMember(t, "broker-3", database, "WAGGLE_MESH=off")
	alone.restart(t)
	c.awaitMesh(t)
	before := meshKeys(t, alone)
	require.Len(t, before.Brokers, 2, "who has no mesh needs no key")
	var said bytes.Buffer
	command := startProcess(t, nil, &said, "mesh", "rotate-key", "--url", alone.url)
	require.Zero(t, command.exitCode(t, 3*patience), "%s %s", &said, command.log)
	after := meshKeys(t, c[0])
	require.Nil(t, after.Rotation)
	require.NotEqual(t, before.Keys, after.Keys)
	for _, b := range after.Brokers {
		require.Equal(t, after.Keys[0].Fingerprint, b.Fingerprint)
	}
	c.requireWakes(t, "after a rotation without hints")
	for _, m := range c {
		require.Zero(t, m.metric(t, "waggle_mesh_undecryptable_total"), m.name)
	}
}

// Who has other keys, or none, is not let into the mesh and shown as what it is; its answers are the same.
func TestABrokerWithAnotherKeyIsRefusedAndShown(t *testing.T) {
	database := pgtest.New(t).URL
	file := filepath.Join(t.TempDir(), "mesh.keys")
	require.NoError(t, os.WriteFile(file, []byte("# ours\n"+hex.EncodeToString(bytes.Repeat([]byte{7}, 32))+"\n"), 0o600))
	c := startCluster(t, database, 2)
	for i, setting := range []string{"WAGGLE_MESH_KEY_FILE=" + file, "WAGGLE_MESH_KEY_FILE=" + file, "WAGGLE_MESH_ENCRYPTION=off"} {
		m := newMember(t, fmt.Sprintf("broker-%d", i+3), database, setting)
		m.restart(t)
		c = append(c, m)
	}
	c[4].log.await(t, `"code":"WG0311"`)
	c[:2].awaitMesh(t)
	c[2:4].awaitMesh(t)
	for _, m := range c[:4] {
		eventually(t, m.name+" drops packets that it cannot decrypt", func() bool { return m.metric(t, "waggle_mesh_undecryptable_total") > 0 })
		require.Equal(t, 1.0, m.metric(t, `waggle_mesh_peers{state="alive"}`), "%s sees only its like", m.name)
	}
	require.Equal(t, 0.0, c[4].metric(t, `waggle_mesh_peers{state="alive"}`))

	members := func(ask *member) map[string]client.MeshMember {
		self, members, err := newClient(t, ask.url).MeshMembers(t.Context())
		require.NoError(t, err)
		require.Equal(t, ask.name, self)
		byName := map[string]client.MeshMember{}
		for _, m := range members {
			byName[m.Name] = m
		}
		require.Len(t, byName, 5)
		return byName
	}
	seen := members(c[0])
	require.Equal(t, "alive", seen["broker-2"].State)
	require.Empty(t, seen["broker-2"].Hint)
	for name, hint := range map[string]string{
		"broker-3": "encrypts with a key that this broker does not have (file)", "broker-4": "encrypts with a key", "broker-5": "its mesh is not encrypted",
	} {
		require.Equal(t, "unheard", seen[name].State)
		require.True(t, seen[name].Registered)
		require.False(t, seen[name].Keys.Confirmed)
		require.Contains(t, seen[name].Hint, hint)
	}
	require.Equal(t, "file", seen["broker-3"].Keys.Source)
	require.Contains(t, members(c[2])["broker-1"].Hint, "encrypts with a key that this broker does not have (database)")
	require.Contains(t, members(c[4])["broker-1"].Hint, "its mesh is encrypted and this broker's is not")

	_, err := newClient(t, c[0].url).Push(t.Context(), []client.Item{{Queue: "jobs"}})
	require.NoError(t, err)
	for i, group := range []string{"first", "second", "third"} {
		got, err := newClient(t, c[i+2].url).Pop(t.Context(), client.PopRequest{Queue: "jobs", Group: group, Mode: "all", Wait: true})
		require.NoError(t, err)
		require.Len(t, got.Messages, 1)
	}

	for _, m := range []*member{c[0], c[2]} {
		refused := startProcess(t, nil, nil, "mesh", "rotate-key", "--url", m.url)
		require.Equal(t, 4, refused.exitCode(t, patience), refused.log)
		for _, says := range []string{"broker-3: its keys come from a file (--mesh-key-file)", "broker-5: its mesh is not encrypted"} {
			require.Contains(t, refused.log.String(), says)
		}
	}
	require.Equal(t, http.StatusConflict, call(t, http.MethodPost, c[0].url+"/api/v1/cluster/mesh/keys/rotate", "").status)
}

func TestABadKeyFileIsRefusedAtTheStart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mesh.keys")
	require.NoError(t, os.WriteFile(file, []byte("# ours\nc2hvcnQ=\n"), 0o600))
	for says, settings := range map[string][]string{
		"line 2: not 16, 24 or 32 bytes":                    {"WAGGLE_MESH_KEY_FILE=" + file},
		"no such file":                                      {"WAGGLE_MESH_KEY_FILE=" + file + ".gone"},
		"--mesh-key-file names keys that would not be used": {"WAGGLE_MESH_KEY_FILE=" + file, "WAGGLE_MESH_ENCRYPTION=off"},
	} {
		p := startProcess(t, append(settings, "WAGGLE_DATABASE_URL=postgres://nowhere/x"), nil, "serve")
		require.Equal(t, 2, p.exitCode(t, patience))
		require.Contains(t, p.log.String(), says)
		require.NotContains(t, p.log.String(), "c2hvcnQ")
	}
}
