"""What HTTP needs around the routes: problems, conditions, ranges, streams, headers, metrics."""
