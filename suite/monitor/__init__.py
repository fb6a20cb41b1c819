"""What held a run back, seen from outside: GPU and host are sampled by the parent, never in the measured process."""
