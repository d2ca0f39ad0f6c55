"""Comparisons of types that are more than numbers: the order of a type, what B-trees call, records, texts."""
