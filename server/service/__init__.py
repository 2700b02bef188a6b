"""The use cases behind the routes: wire shapes in, wire shapes out. Knows no HTTP."""
