"""Arrays, ranges and multiranges."""
