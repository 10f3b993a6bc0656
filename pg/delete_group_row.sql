-- DeleteGroup, last: the registration.
delete from waggle.consumer_group where id = $1
