"""Where images come from: one small file for each kind of source."""
