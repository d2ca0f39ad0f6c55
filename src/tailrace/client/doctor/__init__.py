"""What a server is asked before its log is received: whether all is there that tailrace needs, and if not, what to do."""
