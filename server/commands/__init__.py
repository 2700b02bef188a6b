"""Commands of `ansorpy`, one file per group; `ansorpy.server.cli` puts them together."""
