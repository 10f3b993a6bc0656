-- Finalize, Down: every writing transaction reads the gate first, so this waits for those that run and holds up the others.
lock table waggle.gate in access exclusive mode
