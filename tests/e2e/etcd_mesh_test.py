#!/usr/bin/python3
"""A mesh whose objects are in etcd: three members, three controllers without a state of their own,
real Envoys under load. Members and controllers are killed, stopped and started anew."""
import json
import os
import signal

from lib.mesh import meshcase, objects
from lib.mesh.etcd_rig import CLIENT_PORT, CONTROLLERS, EtcdRig
from lib.mesh.meshcase import Load
from lib.net.processes import CommandFailed, NotYet, wait_for

NO_ROUTE = 404  # the client's Envoy: no policy lets it make this request


class EtcdMesh(meshcase.MeshCase):
    make_rig = EtcdRig

    def apply(self, at, *made):
        """`osm apply` of these objects at this controller."""
        file = self.rig.directory / "apply.yaml"
        file.write_text("\n---\n".join(json.dumps(one) for one in made))
        return self.rig.osm("apply", "-f", file, at=at)

    @staticmethod
    def access(*matches):
        return objects.target("server", "access", "server", [("client", "client")],
                              ("HTTPRouteGroup", "routes", list(matches)))

    def start_load(self):
        """Client and server with a proxy each, at two controllers, and load between them."""
        client, server = self.add_client_and_server()
        self.rig.mesh.write("routes.yaml", objects.routes(
            "server", "none", none={"pathRegex": "/none", "methods": ["GET"]}))
        self.start_mesh()
        self.serve(server)
        self.wait_for_status(client, 200, "server.server")
        self.assertNotEqual(client.at, server.at)
        load = Load(client, interval=0.02)
        self.addCleanup(load.stop)
        return client, server, load

    def closed(self):
        """The policy that lets the client read nothing that is there."""
        return objects.target("server", "access", "server", [("client", "client")],
                              ("HTTPRouteGroup", "none", ["none"]))

    # -- tests ----------------------------------------------------------------------------------
    def test_a_member_and_a_controller_are_killed_under_load_and_no_request_fails(self):
        client, server, load = self.start_load()
        self.assertEqual((client.at, server.at), ("controller-1", "controller-2"))
        keys = self.rig.keys()
        self.assertIn("/osm/objects/access.smi-spec.io/TrafficTarget/server/access", keys)
        self.assertIn("/osm/ca", keys)
        load.check(self)

        with self.subTest("one member and one controller are killed at once"):
            self.rig.stop_controller(signal.SIGKILL)
            load.check(self, more=200)
            self.rig.wait_until_ready()

        with self.subTest("a policy that is applied now takes effect"):
            load.stop()
            self.assertEqual(load.failures, [])
            self.assertEqual(self.apply("controller-3", self.closed()),
                             "TrafficTarget server/access configured\n")
            self.wait_for_status(client, NO_ROUTE, "server.server")
            self.apply("controller-2", self.access("books"))
            self.wait_for_status(client, 200, "server.server")

        with self.subTest("both come back, the controller without any state and with the same CA"):
            load = Load(client, interval=0.02)
            self.addCleanup(load.stop)
            self.rig.start_controller()
            self.wait_until_synced()
            self.assertEqual(sorted(self.proxies()), ["client", "server"])
            fingerprints = {json.loads(self.rig.osm("certificate", "status", "-o", "json", at=name))
                            ["roots"][0]["fingerprint"] for name in CONTROLLERS}
            self.assertEqual(len(fingerprints), 1, fingerprints)
            load.check(self)

        with self.subTest("another member goes, and a policy is applied at once"):
            self.rig.members["etcd-2"].end(signal.SIGKILL)
            load.check(self, more=50)
            load.stop()
            self.assertEqual(load.failures, [])
            self.apply("controller-1", self.closed())
            self.wait_for_status(client, NO_ROUTE, "server.server", timeout=20)

    def test_a_controller_that_was_stopped_survives_a_compaction(self):
        client, _, load = self.start_load()
        load.stop()
        stopped, host = self.rig.controllers["controller-3"], self.rig.hosts["controller-3"]
        # Its watch breaks while it stands still, and the revision that it asks for is compacted.
        reset = ("OUTPUT", "-p", "tcp", "--dport", str(CLIENT_PORT), "-j", "REJECT",
                 "--reject-with", "tcp-reset")
        os.kill(stopped.pid, signal.SIGSTOP)
        host.run("iptables", "-A", *reset)
        try:
            self.apply("controller-1", self.closed())
            self.wait_for_status(client, NO_ROUTE, "server.server")
            self.apply("controller-1", *(objects.account("server", f"more-{n}") for n in range(30)))
            self.rig.osm("delete", "serviceaccount", "server/more-0", at="controller-1")
            revision = self.rig.etcd("kv/range", key="AA==")["header"]["revision"]
            self.rig.etcd("kv/compaction", revision=revision, physical=True)
        finally:
            os.kill(stopped.pid, signal.SIGCONT)
        host.run("iptables", "-D", *reset)

        def told():
            names = self.rig.osm("get", "serviceaccounts", "-n", "server", at="controller-3")
            if "more-29 " not in names or "more-0 " in names:
                raise NotYet(names)
            return True

        wait_for("controller-3 knows the newest objects", told, 60, retry=(CommandFailed,))
        shown = json.loads(self.rig.osm("status", "traffictarget", "server/access", "-o", "json",
                                        at="controller-3"))
        self.assertEqual(shown["phase"], "Applied")
        self.rig.wait_until_ready(timeout=60)

    def test_objects_are_validated_and_conflicts_are_told(self):
        self.rig.start_controller()
        first = objects.mesh_config()
        self.assertEqual(self.apply("controller-1", first),
                         "MeshConfig osm-system/osm-mesh-config created\n")
        self.assertEqual(self.apply("controller-2", first),
                         "MeshConfig osm-system/osm-mesh-config unchanged\n")
        bad = objects.target("server", "bad", "server", [("client", "client")],
                             ("NoSuchKind", "routes", ["x"]))
        with self.assertRaisesRegex(CommandFailed, "nothing was written: 1 of 2"):
            self.apply("controller-1", objects.namespace("server"), bad)
        self.assertNotIn("/osm/objects/-/Namespace/-/server", self.rig.keys())

        # An author who read the object before another one changed it.
        name = ("mc", "osm-system/osm-mesh-config")
        mine = json.loads(self.rig.osm("get", *name, "-o", "json", at="controller-1"))
        self.apply("controller-3", objects.mesh_config(permissive=True))
        with self.assertRaisesRegex(CommandFailed, r"was changed since version .* \[conflict\]"):
            self.apply("controller-1", mine)
        with self.assertRaisesRegex(CommandFailed, "allow-deletion"):
            self.rig.osm("delete", *name, at="controller-1")

        editor = self.rig.directory / "editor.sh"
        editor.write_text("#!/bin/sh\nsed -i 's/PolicyMode: true/PolicyMode: false/' \"$1\"\n")
        editor.chmod(0o755)
        os.environ["EDITOR"] = str(editor)
        self.addCleanup(os.environ.pop, "EDITOR")
        self.assertEqual(self.rig.osm("edit", *name, at="controller-2"),
                         "MeshConfig osm-system/osm-mesh-config configured\n")
        shown = self.rig.osm("get", *name, "-o", "yaml", at="controller-3")
        self.assertIn("enablePermissiveTrafficPolicyMode: false", shown)


if __name__ == "__main__":
    meshcase.main()
