"""HTTP layer around the routes: middleware, connections, problem details, streams, metrics."""
