"""The bookstore with a client that sends requests without pause, and the answers to them."""

import json
import sys
import time

from lib.kube import kubecase, shop
from lib.net.processes import wait_for

sys.path.append(str(shop.FILES))
from bookstore import Load  # noqa: E402  (the demo's judge of a load)


class UnderLoad(kubecase.MeshCase):
    """The bookstore, and a client that never rests."""

    REPLICAS, DRAIN = 1, 0  # of each bookstore; seconds that one stays before it ends

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        shop.install(cls, cls.REPLICAS, cls.DRAIN)
        cls.api.apply(shop.load())
        cls.wait_until_available("bookbuyer", "load")
        cls.follow_load()
        # A connection of before the mesh was whole may have been closed again: not judged.
        wait_for("the load is up", cls.steady, 60, retry=(FileNotFoundError,))

    @classmethod
    def follow_load(cls):
        """From here on the newest pod of the client is judged."""
        cls.buyer = cls.pod_of("bookbuyer", "load")
        cls.report = cls.buyer.run.volume_paths["report"] / "report.json"

    def judge(self, since, but=()):
        """Requests since then; none of them failed, and no connection of the client broke, except
        failures that begin with one of `but`."""

        def told():
            report = json.loads(self.report.read_text())
            return report if max(s["t"] for s in report["seconds"]) > time.time() - 2 else None

        time_up = time.time()
        wait_for("some seconds have passed since", lambda: time.time() > time_up + 5, 10)
        report = wait_for("the report is recent", told)
        failures = [
            f"{f['what']} {f['t'] - since:+.2f} s"
            for f in report["failures"]
            if f["t"] >= since and not f["what"].startswith(tuple(but))
        ]
        requests = sum(s["requests"] for s in report["seconds"] if s["t"] >= since)
        lines = sum(s["lines"] for s in report["seconds"] if s["t"] >= since)
        print(f"{requests} requests, {lines} lines, {len(failures)} failures", file=sys.stderr)
        self.assertEqual([], failures)
        self.assertGreater(requests, 100)
        self.assertGreater(lines, 10)

    @classmethod
    def steady(cls):
        """True if requests and lines were answered in the last seconds and none failed."""
        if not cls.report.exists():  # the load has just started
            return False
        report = json.loads(cls.report.read_text())
        last = [s for s in report["seconds"] if time.time() - 4 < s["t"] < time.time() - 1]
        return (
            len(last) >= 2
            and all(s["requests"] > 50 and s["lines"] > Load.STREAMS for s in last)
            and not [f for f in report["failures"] if f["t"] > time.time() - 3]
        )

    def wait_for_steady_load(self):
        wait_for("the load is answered", self.steady, 30)
