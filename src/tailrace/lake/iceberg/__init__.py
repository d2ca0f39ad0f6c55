"""Iceberg tables on a store, without a catalog's server: found at a version of their metadata, and gone on from by one commit of ours."""
