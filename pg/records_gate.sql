-- Records: whoever changes the floor does it alone, and sees what the one before has changed. Locks the gate's row.
select from waggle.gate for no key update
