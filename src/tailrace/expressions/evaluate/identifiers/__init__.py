"""Network addresses, and what PostgreSQL numbers its own things with: tid, transaction ids, snapshots."""
