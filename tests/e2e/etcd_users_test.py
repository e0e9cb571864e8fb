#!/usr/bin/python3
"""A mesh in etcd with users of etcd: the documented role suffices, controllers survive tokens that end or
that members forget and a new password, and other users are refused with the reason.
"""

import pathlib
import re
import signal

from lib.mesh import meshcase, objects
from lib.mesh.etcd_rig import MEMBERS, EtcdRig
from lib.mesh.meshcase import Load
from lib.mesh.replicated_rig import CONTROLLERS
from lib.net.processes import NotYet, wait_for

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
TOKENS_LIVE = 3  # seconds; etcd's default is 300
ENDED = r'"deleted a simple token","user-name":"osm","token":"([^"]+)"'  # in a member's log
LISTS = "osm_etcd_watch_lists_total"
NO_ROUTE = 404  # the client's Envoy: no policy lets it make this request


def granted_in(page, before):
    """The permission that this page of the documentation names behind the words `before`."""
    return re.search(re.escape(before) + r"(readwrite /\S+ --prefix=true)", (DOCS / page).read_text())[1]


class EtcdUsers(meshcase.MeshCase):
    make_rig = EtcdRig

    def start_etcd(self):
        # A login at etcd's default cost takes some 100 ms of a core.
        self.rig.member_flags = ("--auth-token-ttl", TOKENS_LIVE, "--bcrypt-cost", 4, "--log-level", "info")
        self.rig.start_members()
        self.rig.turn_users_on(
            granted_in("run.md", "With users, grant the whole prefix: `"),
            guest="readwrite /other",
            ca=granted_in("certificates.md", "etcdctl role grant-permission osm "),
        )

    def check_changes(self, client):
        """A policy that is taken away and given back has effect."""
        for group, match, wanted in (("none", "none", NO_ROUTE), ("routes", "books", 200)):
            self.rig.mesh.write(
                "access.yaml",
                objects.target(
                    "server", "access", "server", [("client", "client")], ("HTTPRouteGroup", group, [match])
                ),
            )
            self.wait_for_status(client, wanted, "server.server", timeout=20)

    def ended_tokens(self):
        """Tokens of the controllers' user that no member knows any more."""
        ended = [set(re.findall(ENDED, self.rig.members[name].text())) for name in MEMBERS]
        return set.intersection(*ended)

    def leases(self):
        """The keys of the controllers that live."""
        return sorted(key for key in self.rig.keys() if key.startswith("/osm/ca/replicas/"))

    def wait_for_reason(self, name, *words):
        def told():
            status, body = self.rig.http(name, "/health/ready")
            if status != 503 or not all(word in body for word in words):
                raise NotYet((status, body))
            return True

        wait_for(f"{name} says why it is not ready: {words}", told, 30, retry=(OSError,))

    # -- tests ----------------------------------------------------------------------------------
    def test_the_documented_role_suffices_and_tokens_may_end(self):
        client, server = self.add_client_and_server()
        self.rig.mesh.write(
            "routes.yaml", objects.routes("server", "none", none={"pathRegex": "/none", "methods": ["GET"]})
        )
        self.start_etcd()
        self.start_mesh()
        self.serve(server)
        self.wait_for_status(client, 200, "server.server")
        load = Load(client, interval=0.05)
        self.addCleanup(load.stop)
        leases = self.leases()
        self.assertEqual(len(leases), len(CONTROLLERS))

        with self.subTest("tokens end, but not leases and watches"):
            known = len(self.ended_tokens())
            wait_for(
                "two tokens for each controller end",
                lambda: len(self.ended_tokens()) >= known + 2 * len(CONTROLLERS),
                60,
                interval=0.2,
            )
            load.check(self)
            load.stop()
            self.check_changes(client)
            self.assertEqual(self.leases(), leases)
            for name in CONTROLLERS:
                self.assertEqual(self.rig.count_of(name, LISTS), 1)
                self.assertNotIn("objects in etcd cannot be read", self.rig.controllers[name].text())

        with self.subTest("members that start anew know no token"):
            for name in MEMBERS:
                self.rig.members[name].end(signal.SIGKILL)
                self.rig.start_members()
                self.check_changes(client)
            for name in MEMBERS:
                self.rig.members[name].end(signal.SIGKILL)
            self.rig.start_members()
            self.check_changes(client)
            self.assertEqual(self.leases(), leases)

        with self.subTest("the password is changed"):
            self.rig.etcd("auth/user/changepw", name="osm", password="new")
            self.rig.login[-1].write_text("new\n")
            self.check_changes(client)
        self.rig.wait_until_ready()

    def test_other_users_are_refused_with_a_reason(self):
        self.start_etcd()
        with self.subTest("a role for other keys"):
            self.refuses("guest", "permission denied", "read and write key /osm/ca and the keys ")
        with self.subTest("the role of a controller that has only its CA in etcd"):
            self.refuses("ca", "permission denied", "read and write key /osm and the keys below it")
        with self.subTest("a wrong password"):
            self.rig.login = self.rig.login_of("osm")
            self.rig.login[-1].write_text("wrong")
            self.refuses(None, "invalid user ID or password")
        self.assertEqual(self.leases(), [])

    def refuses(self, user, *words):
        """A controller with this user waits, and says why. It ends on a signal."""
        if user:
            self.rig.login = self.rig.login_of(user)
        self.rig.start_one("controller-1")
        self.wait_for_reason("controller-1", *words)
        self.assertEqual(self.rig.controllers["controller-1"].end(), 0)


if __name__ == "__main__":
    meshcase.main()
