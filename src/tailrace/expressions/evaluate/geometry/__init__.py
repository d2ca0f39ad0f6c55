"""Points, lines, boxes, circles, paths and polygons (`adt/geo_ops.c`)."""
