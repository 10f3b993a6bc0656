-- ReadSetting: a switch of the whole cluster; off where nobody has ever set it. Locks nothing.
select coalesce((select s.value = 'true'::jsonb from waggle.setting s where s.name = $1::text), false)
