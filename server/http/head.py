"""HEAD requests: the headers of GET without its body."""

from starlette.types import Message, Send


class HeadersSentError(Exception):
    """Raised in a streaming response that keeps sending a body to a HEAD request."""


class HeadersOnly:
    """The ASGI `send` of a HEAD request: pass the headers, then end the body.

    The server then reports a disconnect to a streaming response. A response that sends more body
    gets a HeadersSentError, which the middleware suppresses.
    """

    def __init__(self, send: Send) -> None:
        self.send = send
        self.ended = False

    async def __call__(self, message: Message) -> None:
        """Send the headers, or an empty body."""
        if message["type"] == "http.response.start":
            await self.send(message)
            return
        if self.ended:
            raise HeadersSentError
        self.ended = True
        await self.send({"type": "http.response.body", "body": b""})
