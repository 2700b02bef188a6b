"""HEAD: the headers of the GET of a path, without its body."""

from starlette.types import Message, Send


class HeadersSentError(Exception):
    """Ends a stream that goes on although its reader asked for headers only."""


class HeadersOnly:
    """The `send` of a HEAD request: headers pass, the first part of a body becomes its end.

    A server then tells a stream that its reader is gone. One that goes on all the same is ended by
    an error: the caller suppresses it.
    """

    def __init__(self, send: Send) -> None:
        self.send = send
        self.ended = False

    async def __call__(self, message: Message) -> None:
        """Send the headers, or the end."""
        if message["type"] == "http.response.start":
            await self.send(message)
            return
        if self.ended:
            raise HeadersSentError
        self.ended = True
        await self.send({"type": "http.response.body", "body": b""})
