#!/usr/bin/python3
"""An added, changed or removed Service sends each proxy at most 5 kB over delta, and ends no connection to
another Service; an application does not reach its own proxy's listeners by port 15001 or 15003.
"""

import json
import sys

from lib.mesh import meshcase, objects
from lib.mesh.rig import REFUSED, XDS
from lib.net.processes import NotYet, wait_for

LEDGER, TCP = "10.96.0.13", 7000
SERVICES = 60  # besides the two that are used
MOST_BYTES = 4096 + 1024  # of content, and of frames, pings and a second answer with endpoints, which waited
MORE = 400
MOST_MEMORY = 120_000  # listener, routes, cluster and endpoints of a Service
REQUEST = b"GET /books-bought HTTP/1.1\r\nHost: server.server\r\n\r\n"


class Outbound(meshcase.MeshCase):
    def setUp(self):
        super().setUp()
        self.client, self.server = self.add_client_and_server()
        self.rig.mesh.write(
            "others.yaml",
            objects.mesh_config(permissive=True),
            objects.service("server", "ledger", LEDGER, TCP, protocol="tcp", selector={"app": "server"}),
            *(
                objects.service("server", f"other-{n}", f"10.96.1.{n + 1}", meshcase.PORT, selector={"app": "server"})
                for n in range(SERVICES)
            ),
        )
        self.start_mesh()
        self.serve(self.server)
        self.start_ledger(self.server, TCP)
        self.wait_for_status(self.client, 200, "server.server")
        self.wait_for_status(self.client, 200, f"other-{SERVICES - 1}.server")
        self.wait_until_synced()

    def listener_updates(self):
        return self.client.stats(r"^listener_manager.listener_(added|modified|removed|in_place_updated)$")

    def received(self):
        """Bytes that the client's Envoy got from the controller."""
        return sum(self.client.stats(r"^cluster.osm-controller.upstream_cx_rx_bytes_total$").values())

    def change(self, write, wanted):
        """Does `write`, and waits for the new Service's answer to be `wanted`.

        Result: bytes that the client's proxy received for it, and the listeners that changed.
        """
        bytes_before, before = self.received(), self.listener_updates()
        write()

        def answered():
            got = self.client.request("10.96.2.1", meshcase.PORT, "/books-bought", "new.server")
            if got[0] != wanted:
                raise NotYet(got)
            return True

        wait_for(f"the new Service answers {wanted}", answered, 20)
        self.wait_until_synced()
        after = self.listener_updates()
        return self.received() - bytes_before, {
            part.rsplit("_", 1)[-1]: after[part] - before[part] for part in after if after[part] != before[part]
        }

    def test_a_service_that_comes_changes_or_goes_concerns_no_other(self):
        def write(weight=None):
            parts = [objects.service("server", "new", "10.96.2.1", meshcase.PORT, selector={"app": "server"})]
            if weight is not None:
                parts.append(objects.split("server", "new", "new", **{"other-1": weight}))
            self.rig.mesh.write("new.yaml", *parts)

        steps = (
            ("added", write, 200, {"added": 1}),
            ("changed", lambda: write(weight=0), 503, {}),
            ("removed", lambda: self.rig.mesh.remove("new.yaml"), REFUSED, {"removed": 1}),
        )
        http = self.client.namespace.connect("10.96.0.12", meshcase.PORT)
        tcp = self.client.namespace.connect(LEDGER, TCP)
        with http, tcp, meshcase.Load(self.client) as load:
            for name, step, wanted, listeners in steps:
                with self.subTest(name):
                    load.check(self)
                    size, changed = self.change(step, wanted)
                    self.assertEqual(changed, listeners)
                    if XDS == "delta":
                        self.assertLess(size, MOST_BYTES)
                    for connection, request, answer in ((http, REQUEST, b"HTTP/1.1 200"), (tcp, b"x\n", b"")):
                        connection.settimeout(5)
                        connection.sendall(request)
                        heard = connection.recv(4096)
                        self.assertTrue(heard.startswith(answer) and heard, heard)
                        self.assertNotIn(b"connection: close", heard.lower())
                    load.check(self)
        with self.subTest("no connection drained"):
            drained = self.client.stats(r"^http\.mesh.*rds-outbound.*downstream_cx_drain_close$")
            self.assertTrue(drained)
            self.assertEqual(sum(drained.values()), 0)

    def test_a_proxys_memory_grows_by_a_bounded_amount_per_service(self):
        def allocated():
            return int(json.loads(self.client.admin("/memory")[1])["allocated"])

        before = allocated()
        self.rig.mesh.write(
            "more.yaml",
            *(
                objects.service(
                    "server",
                    f"more-{n}",
                    f"10.96.{3 + n // 200}.{n % 200 + 1}",
                    meshcase.PORT,
                    selector={"app": "server"},
                )
                for n in range(MORE)
            ),
        )
        wait_for(
            "the last Service answers",
            lambda: (
                200 == self.client.request("10.96.4.200", meshcase.PORT, "/books-bought", f"more-{MORE - 1}.server")[0]
            ),
            30,
            retry=(OSError,),
        )
        self.wait_until_synced()
        each = (allocated() - before) / MORE
        print(f"{each / 1000:.1f} kB of memory for each Service", file=sys.stderr)
        self.assertLess(each, MOST_MEMORY)

    def test_what_clients_see_at_an_address_is_its_service_alone(self):
        def ask(address, host):
            return self.client.request(address, meshcase.PORT, "/books-bought", host)[0]

        self.assertEqual(ask("10.96.0.12", "server.server:14001"), 200)
        self.assertEqual(ask("10.96.0.12", "elsewhere.example"), 404)
        self.assertEqual(ask("10.96.0.12", "other-1.server"), 404)
        self.assertEqual(ask("10.96.200.1", "server.server"), REFUSED)

    def test_an_application_does_not_reach_the_listeners_of_its_own_proxy(self):
        for egress in (False, True):
            self.rig.mesh.write("others.yaml", objects.mesh_config(permissive=True, egress=egress))
            for port in (15001, 15003):
                with self.subTest(egress=egress, port=port):
                    got = self.server.request("10.200.0.11", port, "/books-bought", "server.server")
                    self.assertEqual(got[0], REFUSED)

        def refused():
            unmatched = self.server.stats(r"^listener\.0\.0\.0\.0_15003\.no_filter_chain_match$")
            if not sum(unmatched.values()):
                raise NotYet(unmatched)
            return True

        wait_for("the inbound listener has refused them", refused)


if __name__ == "__main__":
    meshcase.main()
