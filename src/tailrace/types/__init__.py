"""Types: how PostgreSQL stores, prints, parses, sends and receives values, and what they are in Arrow (`utils/adt/`).

A family of types, as the manual has them in chapters, is a folder, or a file where it is short: `numbers`, `times`, `strings`, `boolean`,
`enums`, `geometric`, `network`, `text_search`, `uuid`, `json`, `arrays`, `composites`, `ranges`, `domains`, `oid_aliases`, `system`,
`extensions`. It lists its types, each a `Codec`. What a family or a type has much of, it has in files of these names:

- `text`: the output and the input function (`format_…`, `parse_…`);
- `binary`: the send and the receive function (`send_…`, `receive_…`). Without one a type is sent by a function of `codec.binary_forms`;
- `arrow`: the Arrow type, and the way there (`arrow_…`, `…_to_arrow`). Without one a column becomes a string of its text (`codec.to_arrow`);
- `stored`: what lies on disk, for the three others.

`registry` says which type has which codec; `codec` finds it for a column, and has what the families share; `values` is what goes in and comes
out. `oids` are the names of type oids, `built_in` is what pg_type says of them, `format_type` how types are written, with their modifiers
(`typmods`). How a session wants its texts is in `style`; `quoting` puts names in quotes; `encodings` makes UTF-8 of texts in the database's own.
"""
