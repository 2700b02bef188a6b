"""The shapes on the wire: strict, bounded, nothing extra. One file per kind of thing."""
