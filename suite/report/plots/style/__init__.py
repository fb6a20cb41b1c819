"""How plots look: colours, names, panels, files."""
