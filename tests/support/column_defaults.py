"""A table whose columns have defaults of every kind, and what these use."""

from __future__ import annotations

DEFINED = (
    "CREATE SCHEMA elsewhere",
    'CREATE SEQUENCE elsewhere."a seq"',
    "CREATE FUNCTION elsewhere.twice(int) RETURNS int LANGUAGE SQL RETURN $1 * 2",
    "CREATE DOMAIN short AS varchar(4)",
    "CREATE TYPE feeling AS ENUM ('fine', 'so \"so\"')",
    """CREATE TABLE defaults (
      id serial PRIMARY KEY, i int GENERATED ALWAYS AS IDENTITY, b bigint DEFAULT 6, t text DEFAULT 'it''s "so"', v varchar(9) DEFAULT 'v',
      ts timestamp DEFAULT '2020-07-12 11:55:30', tz timestamptz DEFAULT now(), c timestamptz DEFAULT CURRENT_TIMESTAMP,
      c3 time(3) DEFAULT LOCALTIME(3), d date DEFAULT CURRENT_DATE, u name DEFAULT CURRENT_USER, s text DEFAULT SESSION_USER, n int DEFAULT NULL,
      f int, g int GENERATED ALWAYS AS (7) STORED, q bigint DEFAULT nextval('elsewhere."a seq"'), o int DEFAULT elsewhere.twice(3),
      w text DEFAULT 5::text || 'x', x numeric(5,2) DEFAULT 1.5, a int[] DEFAULT '{}', aa text[] DEFAULT ARRAY['x', NULL],
      m feeling DEFAULT 'fine', y bytea DEFAULT '\\x00ff', z text DEFAULT upper('a') || lower('B'), k short DEFAULT 'k',
      iv interval DEFAULT '1 day 2 s', bo bool DEFAULT (true AND NOT false), ca int DEFAULT CASE WHEN 1 > 2 THEN 3 ELSE -4 END,
      co int DEFAULT coalesce(NULL, 1 + 2), j jsonb DEFAULT '{"a": 1}', uu uuid DEFAULT gen_random_uuid(),
      at timestamptz DEFAULT (now() AT TIME ZONE 'UTC'), io int DEFAULT ('1' || '2')::int)""",
)
