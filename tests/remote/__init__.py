"""A measuring back end behind a socket: processes that know no path and no memory of the driver."""
