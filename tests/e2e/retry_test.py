#!/usr/bin/python3
"""A server counts as many tries of each request as the Retry says, in both modes, only for its Services,
and none without the feature flag.
"""

import json
import pathlib
import sys

from lib.kube import apps
from lib.mesh import meshcase, objects
from lib.net.processes import NotYet, wait_for

APP = pathlib.Path(apps.__path__[0]) / "http_app.py"
HOST, OTHER = "server.server", "other.server"


class Retry(meshcase.MeshCase):
    def setUp(self):
        super().setUp()
        self.client, self.server = self.add_client_and_server()
        self.rig.mesh.write(
            "server.yaml",
            objects.service("server", "server", "10.96.0.12", meshcase.PORT),
            objects.service("server", "other", "10.96.0.13", meshcase.PORT, selector={"app": "server"}),
            objects.routes("server", "routes", all={"pathRegex": ".*"}),
            objects.target("server", "access", "server", [("client", "client")], ("HTTPRouteGroup", "routes", ["all"])),
        )
        self.configure()
        self.keys = 0

    def configure(self, permissive=False, obeyed=True):
        self.rig.mesh.write("config.yaml", objects.mesh_config(permissive, featureFlags={"enableRetryPolicy": obeyed}))

    def write_retry(self, **policy):
        self.rig.mesh.write("retry.yaml", objects.retry("client", "again", "client", [("server", "server")], **policy))

    def start(self):
        self.start_mesh()
        self.server.run("app", sys.executable, str(APP), "--port", str(meshcase.PORT))
        for host in (HOST, OTHER):
            self.wait_for_status(self.client, 200, host, "/ready")

    def ask(self, host, failure):
        """(status, tries that the server saw) of one request."""
        self.keys += 1
        status = self.client.get(host, meshcase.PORT, f"/tries/{self.keys}?{failure}")[0]
        counted = self.client.get(host, meshcase.PORT, f"/count/{self.keys}")
        return status, json.loads(counted[1])["tries"]

    def wait_for_answer(self, wanted, host=HOST, failure="fail=2"):
        def answered():
            got = self.ask(host, failure)
            if got != wanted:
                raise NotYet(got)
            return True

        wait_for(f"{host} answers {wanted}", answered)

    def test_requests_are_sent_again_as_the_retry_says(self):
        self.write_retry()
        self.start()
        for permissive in (False, True):
            with self.subTest(permissive=permissive):
                self.configure(permissive)
                self.wait_for_answer((200, 3))
                self.assertEqual(self.ask(HOST, "fail=9"), (503, 4))
                self.assertEqual(self.ask(OTHER, "fail=2"), (503, 1))
        with self.subTest("as many at once as the Service's limit says: none"):
            self.rig.mesh.write(
                "limits.yaml",
                objects.upstream_setting("server", "limits", HOST, connectionSettings={"http": {"maxRetries": 0}}),
            )
            self.wait_for_answer((503, 1))
            self.rig.mesh.remove("limits.yaml")
            self.wait_for_answer((200, 3))
        with self.subTest("a try that is too slow ends, and the next one answers"):
            self.write_retry(perTryTimeout="100ms")
            self.wait_for_answer((200, 2), failure="slow=1")
        with self.subTest("other conditions"):
            self.write_retry(retryOn="connect-failure")
            self.wait_for_answer((503, 1))
        with self.subTest("more retries"):
            self.write_retry(numRetries=5)
            self.wait_for_answer((503, 6), failure="fail=9")
        with self.subTest("without the feature flag, and that is said"):
            self.configure(obeyed=False)
            self.wait_for_answer((503, 1))
            told = [(p["code"], p["severity"]) for p in self.rig.problems() if p["object"] == "Retry client/again"]
            self.assertEqual(told, [("unused-field", "notice")])
        with self.subTest("with it again, and until the object is deleted"):
            self.configure()
            self.wait_for_answer((200, 3))
            self.rig.mesh.remove("retry.yaml")
            self.wait_for_answer((503, 1))


if __name__ == "__main__":
    meshcase.main()
