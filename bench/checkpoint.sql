-- Called before each side, so that each pays for the same full page images. Locks nothing. Needs a superuser or
-- pg_checkpoint; without, sides start wherever the last checkpoint left them.
checkpoint;
