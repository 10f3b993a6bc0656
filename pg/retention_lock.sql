-- Retention.step and an append exclude each other: locks partition $1, waiting no longer than lock_timeout. A statement
-- of its own, because only the next one sees what this one waited for. No row when the partition is gone.
select queue_id from waggle.partition where id = $1::bigint for no key update
