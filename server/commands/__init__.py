"""Commands of `ansorpy`, one module per group; `ansorpy.server.cli` registers them."""
