package mesh

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestAnInterestSetNeverDeniesWhatItHolds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		set := newInterestSet()
		names := rapid.SliceOfN(rapid.StringN(1, 20, 40), 1, 200).Draw(t, "queues")
		for _, name := range names {
			set.add(interestHash(tenantA, name))
			require.False(t, set.add(interestHash(tenantA, name)), "a second time changes nothing")
		}
		for _, name := range names {
			require.True(t, interested(set.encoded(), interestHash(tenantA, name)))
		}
	})
}

func TestAnInterestSetDeniesMostOfWhatItDoesNotHold(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		held  int
		wrong float64
	}{{0, 0}, {10, .001}, {100, .002}, {1000, .04}, {2000, .2}} {
		set := newInterestSet()
		for i := range test.held {
			set.add(interestHash(tenantA, fmt.Sprintf("held-%d", i)))
		}
		wrong := 0
		const asked = 10_000
		for i := range asked {
			if interested(set.encoded(), interestHash(tenantA, fmt.Sprintf("other-%d", i))) {
				wrong++
			}
		}
		require.LessOrEqual(t, float64(wrong)/asked, test.wrong, "%d queues, fill %.2f", test.held, interestFill(set[:]))
	}
}

func TestTheSameNameOfAnotherTenantIsAnotherQueue(t *testing.T) {
	t.Parallel()
	set := newInterestSet()
	set.add(interestHash(tenantA, "orders"))
	require.False(t, interested(set.encoded(), interestHash(uuid.UUID{}, "orders")))
}

func TestAReaderTakesSetsOfOtherSizes(t *testing.T) {
	t.Parallel()
	for size := 1; size <= interestBytes; size *= 2 {
		set := make([]byte, size)
		hash := interestHash(tenantA, "orders")
		for n := range interestProbes {
			at, mask := interestBit(hash, n, size)
			set[at] |= mask
		}
		require.True(t, interested(set, hash))
		require.False(t, interested(make([]byte, size), hash))
	}
}

func TestASummaryHoldsWhileItIsConfirmed(t *testing.T) {
	t.Parallel()
	set := newInterestSet()
	set.add(interestHash(tenantA, "orders"))
	orders, mail := interestHash(tenantA, "orders"), interestHash(tenantA, "mail")
	now := time.Now()
	e := &exchangedInterest{}
	require.True(t, e.wants(mail, now, time.Second), "nothing was said")
	ask, have := e.beacon(3, now)
	require.True(t, ask, "there is a summary that did not come")
	require.Zero(t, have)

	require.EqualValues(t, 3, e.summary(3, set.encoded(), now))
	require.True(t, e.wants(orders, now, time.Second))
	require.False(t, e.wants(mail, now, time.Second))
	require.False(t, e.wants(mail, now.Add(3*time.Second), time.Second))
	require.True(t, e.wants(mail, now.Add(3*time.Second+1), time.Second), "not confirmed for three beacons")

	now = now.Add(3 * time.Second)
	ask, _ = e.beacon(3, now)
	require.False(t, ask)
	require.False(t, e.wants(mail, now.Add(3*time.Second), time.Second), "a beacon confirms it")
	ask, _ = e.beacon(2, now.Add(time.Second))
	require.False(t, ask)
	require.True(t, e.wants(mail, now.Add(4*time.Second), time.Second), "one that was overtaken does not")

	ask, have = e.beacon(4, now)
	require.True(t, ask, "a newer one did not come")
	require.EqualValues(t, 3, have)
	require.True(t, e.wants(mail, now, time.Second), "what it says is not known")
	require.EqualValues(t, 5, e.summary(5, newInterestSet().encoded(), now))
	require.False(t, e.wants(orders, now, time.Second))
	require.EqualValues(t, 5, e.summary(4, set.encoded(), now), "one that was overtaken changes nothing")
	require.False(t, e.wants(orders, now, time.Second))
}
