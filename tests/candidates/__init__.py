"""Stored candidates, and digests of the machine code that the search's path makes of them."""
