"""A server that answers every request and every line with its name and port.

    answering_app.py NAME ADDRESS [--http PORT...] [--tcp PORT...]

It keeps HTTP connections open, so that only proxies close them.
"""

import argparse
import asyncio


class Answering(asyncio.Protocol):
    def __init__(self, end, answer):
        """`end`: of a request; `answer`: to each."""
        self.end, self.answer, self.data = end, answer, b""

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.data += data
        *requests, self.data = self.data.split(self.end)
        if requests:
            self.transport.write(self.answer * len(requests))


async def serve(options):
    loop = asyncio.get_running_loop()
    for kind, ports in (("http", options.http), ("tcp", options.tcp)):
        for port in ports:
            said = f"{options.name} {port}"
            if kind == "http":
                end, answer = b"\r\n\r\n", f"HTTP/1.1 200 OK\r\nx-from: {said}\r\ncontent-length: 0\r\n\r\n"
            else:
                end, answer = b"\n", f"{said}\n"
            made = answer.encode()
            await loop.create_server(lambda e=end, a=made: Answering(e, a), options.address, port, backlog=256)
    await asyncio.Event().wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("address")
    parser.add_argument("--http", type=int, nargs="*", default=[])
    parser.add_argument("--tcp", type=int, nargs="*", default=[])
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
