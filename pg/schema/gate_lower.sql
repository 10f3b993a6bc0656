-- Down: under the exclusive lock on the gate, once the older form of everything stands again.
update waggle.gate set system_floor = least(system_floor, $1::int)
