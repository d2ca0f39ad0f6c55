"""json and jsonb."""
