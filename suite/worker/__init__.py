"""The measured process: the only room that imports a framework."""
