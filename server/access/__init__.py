"""Access control: API keys, browser sessions, scopes, rate limits, quotas."""
