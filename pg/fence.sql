-- First statement of every writing transaction that is not a flush: fails with WG0023 when a floor has been raised
-- above what this build knows.
select case when system_floor > $1::int then ('WG0023 system floor ' || system_floor)::int end,
       case when record_floor > $2::int then ('WG0023 record floor ' || record_floor)::int end
from waggle.gate
