"""Delta tables on a store: read at a version, their files edited, and gone on from by one commit of ours."""
