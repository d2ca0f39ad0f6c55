"""The log of a Delta table: its actions, checkpoints, deletion vectors and statistics, in both directions.

In and out: bytes, text and Arrow; who fetches them and puts them is `lake/delta/snapshot.py` and its neighbours. The format is that of PROTOCOL.md of
delta-io/delta, whose words the names here are. It is a room of its own since delta-rs writes no deletion vectors, takes no name of one in what it
removes, and commits more than one is asked for (decisions 13 and 18).
"""
