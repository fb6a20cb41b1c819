"""Who may watch a run while it goes on."""
