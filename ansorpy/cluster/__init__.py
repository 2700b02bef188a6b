"""One search on several slots: processes that own cores, of this machine or of a cluster."""
