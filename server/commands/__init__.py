"""Commands of `ansorpy`, one file per group; `server.cli` puts them together."""
