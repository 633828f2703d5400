"""Results as files and tables."""
