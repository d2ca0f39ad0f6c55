"""Types: how PostgreSQL stores, prints, parses, sends and receives values, and what they are in Arrow.

A family of types is a folder, or a file where it is short: `numbers`, `times`, `strings`, `json`, `arrays`, `ranges`, `composites`, `enums`,
`domains`, `boolean`, `uuid`, `network`, `geometric`, `text_search`, `oid_aliases`, `system`, `extensions`. The folder's first page lists its types,
each a `Codec`. What a family has of these, it has in files of these names, and a type with several of them in a folder of its own:

- `text`: the output and the input function (`format_…`, `parse_…`);
- `binary`: the send and the receive function (`send_…`, `receive_…`). Without one a type is sent by a function of `binary_forms`;
- `arrow`: the Arrow type, and the way there (`arrow_…`, `…_to_arrow`). Without one a column becomes a string of its text (`codec.to_arrow`);
- `stored`: what lies on disk, for the three others.

`registry` says which type has which codec; `codec` finds it for a column, and `values` is what goes in and comes out. How a session wants its texts
is in `style` and `search_path`; `encodings` makes UTF-8 of texts in the database's own.
"""
