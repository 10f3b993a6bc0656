-- Admit: the number of the keyring, in the transaction that inserts the registry row. The share lock lasts until its
-- commit, so that whoever advances a rotation either is seen here or sees the row.
select mesh_ring from waggle.installation for share
