-- Apply, Migration: the floors. Share lock on the gate only.
select system_floor, record_floor from waggle.gate
