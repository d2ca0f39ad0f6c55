"""Catalogs: what a file meant, at any LSN and to any transaction, from the rows of pg_class and its like as the log changed them.

- `data_directory`: what a data directory tells beside the log: pg_control, pg_filenode.map, pg_xact and pg_multixact;
- `rows`: the columns of each catalog by major, every version of every row, and where each is seen;
- `pages`: in which files catalogs lie, how a heap page is laid out, and whether one is sound;
- `redo`: records on catalog files, and pages that come whole, replayed into versions of rows;
- `history`: relations and types at an LSN, to a transaction, and when they become something else; user catalog tables;
- `state`: all that is known at one LSN, to go on from there, as the bytes of a file, and without what nobody will ask for again;
- `names`: what regclass, regproc and their kin print at a moment.

A room imports from those above it, but for `history`, which prints the defaults of columns with `names`.
"""
