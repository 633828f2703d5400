"""Published challenges as files."""
