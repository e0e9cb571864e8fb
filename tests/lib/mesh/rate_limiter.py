"""A real rate-limit server with its Redis, outside of the mesh: github.com/envoyproxy/ratelimit."""

import pathlib
import shutil
import sys

import yaml

from lib.net.netns import Switch
from lib.net.processes import wait_for

PROGRAM = pathlib.Path(__file__).resolve().parents[3] / "build/tools/ratelimit/bin/ratelimit"
GRPC_PORT, HTTP_PORT, DEBUG_PORT = 8081, 8080, 6070


def per_year(requests, key, value=None, descriptors=()):
    """A limit of all requests with `key`, and with `value` if there is one. No test sees a year
    end, so none gets back what it used."""
    return {
        "key": key,
        **({"value": value} if value is not None else {}),
        **({"rate_limit": {"unit": "year", "requests_per_unit": requests}} if requests else {}),
        **({"descriptors": list(descriptors)} if descriptors else {}),
    }


class RateLimiter:
    """`limits`: {domain: [per_year(...)]}. Counts live in Redis, so that a stopped server that
    starts again goes on with them."""

    def __init__(self, rig, limits):
        redis = shutil.which("redis-server")
        if redis is None or not PROGRAM.exists():
            sys.exit(f"redis-server or {PROGRAM} is missing: tools/setup --ratelimit")
        self.rig, self.process = rig, None
        self.directory = rig.directory / "ratelimit"
        config = self.directory / "config"
        config.mkdir(parents=True)
        for domain, descriptors in limits.items():
            (config / f"{domain}.yaml").write_text(yaml.safe_dump({"domain": domain, "descriptors": descriptors}))
        self.socket = self.directory / "redis.sock"
        self.redis = rig.start(
            "redis",
            rig.switch.namespace.command(
                redis,
                "--port",
                "0",
                "--unixsocket",
                self.socket,
                "--dir",
                self.directory,
                "--save",
                "",
                "--appendonly",
                "no",
            ),
        )
        wait_for("Redis listens", self.socket.exists)
        self.start()

    @property
    def server(self):
        """rateLimitService of an UpstreamTrafficSetting."""
        return {"host": Switch.ADDRESS, "port": GRPC_PORT}

    def start(self):
        settings = {
            "HOST": Switch.ADDRESS,
            "PORT": HTTP_PORT,
            "GRPC_HOST": Switch.ADDRESS,
            "GRPC_PORT": GRPC_PORT,
            "DEBUG_HOST": Switch.ADDRESS,
            "DEBUG_PORT": DEBUG_PORT,
            "RUNTIME_ROOT": self.directory,
            "RUNTIME_SUBDIRECTORY": ".",
            "RUNTIME_WATCH_ROOT": "false",
            "USE_STATSD": "false",
            "LOG_LEVEL": "info",
            "REDIS_SOCKET_TYPE": "unix",
            "REDIS_URL": self.socket,
            "BACKEND_TYPE": "redis",
        }
        self.process = self.rig.start(
            "ratelimit",
            self.rig.switch.namespace.command("env", *(f"{name}={value}" for name, value in settings.items()), PROGRAM),
        )

        def healthy():
            if not self.process.running():
                raise AssertionError(f"the rate-limit server ended: {self.process.tail()}")
            return self.rig.switch.namespace.http(Switch.ADDRESS, HTTP_PORT, "GET", "/healthcheck")[0] == 200

        wait_for("the rate-limit server is healthy", healthy, 30)

    def stop(self):
        self.process.end()
