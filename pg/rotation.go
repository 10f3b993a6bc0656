package pg

import (
	"bytes"
	"fmt"
	"slices"
	"time"
)

// RotationStep is where the rotation of the mesh key stands.
type RotationStep string

// The steps of a rotation. Each is entered only when every live broker works with the ring of the one before, so at no
// time does a broker encrypt with a key that another one lacks:
//
//	          every broker understands      every broker        every broker          every broker
//	          rotation and has the ring     has both keys       uses the new one      has only it
//	requested --------------------> install ----------> use ------------> remove ------------> (none)
//	[old]                           [old new]           [new old]         [new]
const (
	NoRotation        RotationStep = ""
	RotationRequested RotationStep = "requested"
	RotationInstall   RotationStep = "install"
	RotationUse       RotationStep = "use"
	RotationRemove    RotationStep = "remove"
)

// KeySource is where a broker has its mesh keys from; empty for builds that do not say.
type KeySource string

// The sources of mesh keys.
const (
	KeysFromDatabase KeySource = "database"
	KeysFromFile     KeySource = "file"
	KeysOff          KeySource = "off"
)

// MeshRing is the keyring of the mesh as the database holds it.
type MeshRing struct {
	// Number rises with every change of Keys or of their order.
	Number int64
	// Keys: the first one encrypts, all decrypt.
	Keys [][]byte
	Step RotationStep
	// RequestedBy and RequestedAt are zero without a rotation, RotatedAt before the end of the first one.
	RequestedBy string
	RequestedAt time.Time
	StepAt      time.Time
	RotatedAt   time.Time
}

// LacksRing says why a broker cannot be counted on to work with the ring of this number; empty when it can, or when it
// runs without a mesh and needs no keys.
func (b *Broker) LacksRing(number int64) string {
	switch {
	case b.Mesh == "":
		return ""
	case b.Keys.Source == "":
		return "its build does not understand rotation: upgrade it, or stop it"
	case b.Keys.Source == KeysFromFile:
		return "its keys come from a file (--mesh-key-file)"
	case b.Keys.Source == KeysOff:
		return "its mesh is not encrypted (--mesh-encryption=off)"
	case b.Keys.Ring < number:
		text := fmt.Sprintf("it works with ring %d and has not confirmed ring %d yet", b.Keys.Ring, number)
		if b.SeenAgo > LiveWithin/2 {
			text += fmt.Sprintf("; it was last heard %v ago, and after %v it does not count any more", b.SeenAgo.Round(time.Second), LiveWithin)
		}
		return text
	}
	return ""
}

// Lacking are the brokers that cannot be counted on to work with the ring of this number.
func Lacking(brokers []Broker, number int64) (lacking []Broker) {
	for i := range brokers {
		if brokers[i].LacksRing(number) != "" {
			lacking = append(lacking, brokers[i])
		}
	}
	return lacking
}

// Unrotatable says which brokers make a rotation pointless from the start: keys that are not the database's stay as
// they are, and their brokers would be shut out.
func Unrotatable(brokers []Broker) (reasons []string) {
	for i := range brokers {
		b := &brokers[i]
		if b.Mesh != "" && (b.Keys.Source == KeysFromFile || b.Keys.Source == KeysOff) {
			reasons = append(reasons, b.Name+": "+b.LacksRing(0))
		}
	}
	return reasons
}

// Next is the ring after this one, and false while a broker has not confirmed this one, or when there is no rotation.
// It is pure; fresh is the key to rotate to.
func (r MeshRing) Next(brokers []Broker, fresh []byte) (MeshRing, bool) {
	if r.Step == NoRotation || len(Lacking(brokers, r.Number)) > 0 {
		return r, false
	}
	switch {
	case r.Step == RotationRequested:
		r.Step, r.Keys = RotationInstall, append(slices.Clip(r.Keys), fresh)
	case r.Step == RotationInstall && len(r.Keys) > 1:
		newest := r.Keys[len(r.Keys)-1]
		r.Step, r.Keys = RotationUse, distinctKeys(append([][]byte{newest}, r.Keys...))
	case r.Step == RotationUse && len(r.Keys) > 1:
		r.Step, r.Keys = RotationRemove, r.Keys[:1]
	default:
		// Removed everywhere. Or the ring is not what its step says, because somebody else replaced it: nothing is left of
		// this rotation.
		r.Step = NoRotation
		return r, true
	}
	r.Number++
	return r, true
}

func distinctKeys(keys [][]byte) (out [][]byte) {
	for _, key := range keys {
		if !slices.ContainsFunc(out, func(have []byte) bool { return bytes.Equal(have, key) }) {
			out = append(out, key)
		}
	}
	return out
}
