-- Finalize: under the exclusive lock on the gate.
update waggle.gate set system_floor = greatest(system_floor, $1::int)
