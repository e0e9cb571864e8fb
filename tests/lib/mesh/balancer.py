"""A balancer of TCP connections in front of the controllers, as machines reach them in production: it
chooses the controller of each proxy, and can delay what the two send each other.
"""

import asyncio
import contextlib
import threading

_CONNECT = 2.0  # seconds, until the next controller is tried


class Balancer:
    """`namespace`: it runs there, at `address`. `backends`: {controller: (address, port)}. `thread`: the kernel's
    number of the thread that passes everything on."""

    def __init__(self, namespace, address, backends):
        self._address, self._backends = address, backends
        self._places, self._delays, self._open = {}, {}, {}  # by machine
        self._avoided, self._servers = set(), []
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: namespace.inside(self._run), daemon=True)
        self._thread.start()
        self._started.wait()

    def listen_for(self, machine):
        """The address, as HOST:PORT, that leads the machine's proxy to its controller."""
        return self._call(self._listen(machine))

    def place(self, machine, controller):
        """The machine's next connections go to this controller, or to another one if it does not answer."""
        self._places[machine] = controller

    def delay(self, machine, seconds):
        """Everything arrives so much later, in both directions."""
        self._delays[machine] = seconds

    def avoid(self, controller):
        """It gets no new connections, as if its readiness was checked."""
        self._avoided.add(controller)

    def admit(self, controller):
        self._avoided.discard(controller)

    def cut(self, machine):
        """Ends the machine's connections."""

        async def ended():
            for writer in self._open.get(machine, set()):
                writer.transport.abort()

        self._call(ended())

    def at(self, machine):
        """The controller that place() chose."""
        return self._places[machine]

    def close(self):
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()

    # -- in the loop ----------------------------------------------------------------------------
    def _call(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10)

    def _run(self):
        self.thread = threading.get_native_id()
        asyncio.run(self._until_closed())

    async def _until_closed(self):
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        self._started.set()
        await self._over.wait()
        for server in self._servers:
            server.close()

    async def _listen(self, machine):
        server = await asyncio.start_server(
            lambda reader, writer: self._serve(machine, reader, writer), self._address, 0
        )
        self._servers.append(server)
        return "{}:{}".format(*server.sockets[0].getsockname()[:2])

    async def _serve(self, machine, reader, writer):
        opened = self._open.setdefault(machine, set())
        with contextlib.suppress(ConnectionError):  # cut(), or a controller that ends
            opened.add(writer)
            try:
                if found := await self._dial(machine):
                    opened.add(found[1])
                    await self._relay(machine, (reader, writer), found)
                    opened.discard(found[1])
            finally:
                opened.discard(writer)
                writer.close()

    async def _dial(self, machine):
        first = self._places[machine]
        for name in sorted(self._backends, key=lambda name: (name in self._avoided, name != first)):
            with contextlib.suppress(OSError, TimeoutError):
                return await asyncio.wait_for(asyncio.open_connection(*self._backends[name]), _CONNECT)
        return None

    async def _relay(self, machine, proxy, controller):
        """Until one of the two ends."""
        ways = [
            asyncio.ensure_future(self._copy(machine, proxy[0], controller[1])),
            asyncio.ensure_future(self._copy(machine, controller[0], proxy[1])),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            controller[1].close()

    async def _copy(self, machine, reader, writer):
        waiting = asyncio.Queue()
        sending = asyncio.ensure_future(self._send(waiting, writer))
        try:
            with contextlib.suppress(ConnectionError):
                while data := await reader.read(65536):
                    waiting.put_nowait((self._loop.time() + self._delays.get(machine, 0), data))
                waiting.put_nowait(None)
                await sending
        finally:
            sending.cancel()

    async def _send(self, waiting, writer):
        with contextlib.suppress(ConnectionError):  # its own reader sees the end too
            while came := await waiting.get():
                due, data = came
                if (left := due - self._loop.time()) > 0:
                    await asyncio.sleep(left)
                writer.write(data)
                await writer.drain()
