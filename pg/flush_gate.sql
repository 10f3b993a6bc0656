-- First statement of every flush (Flush). Fails with WG0023 in a cast that cannot succeed when a floor has been
-- raised above what this build knows: $1 system, $2 record format. The xid decides an unknown outcome later.
select pg_current_xact_id()::text::bigint,
       case when system_floor > $1::int then ('WG0023 system floor ' || system_floor)::int end,
       case when record_floor > $2::int then ('WG0023 record floor ' || record_floor)::int end
from waggle.gate
