"""Use cases behind the routes, from wire models to wire models, independent of HTTP."""
