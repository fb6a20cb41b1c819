"""The parent's side: one run, its launches, its journal, and where it is saved."""
