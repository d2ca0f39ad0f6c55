"""What the tests stand on: real PostgreSQL servers, stories told to them, and what was recorded of the telling."""
