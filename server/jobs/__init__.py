"""Jobs: what may be asked of them (queries), who works on them (lease), what happened (events)."""
