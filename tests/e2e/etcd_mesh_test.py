#!/usr/bin/python3
"""A mesh in three etcds with three controllers: one of each is killed under load without a failed request,
policies and files of other programs are applied, conflicts told, and a compaction is survived; `osm edit`
keeps a text that comes late or is invalid; a controller that is cut off takes no new proxies; an account is
denied, and a root replaced, at any controller.
"""

import base64
import json
import os
import pathlib
import re
import signal
from unittest import mock

from lib.mesh import inputs, meshcase, objects
from lib.mesh.etcd_rig import CLIENT_PORT, PATIENTLY, EtcdRig, encoded
from lib.mesh.meshcase import Load
from lib.mesh.replicated_rig import CONTROLLERS
from lib.mesh.rig import REFUSED
from lib.net.processes import CommandFailed, NotYet, wait_for

STALENESS = "osm_replica_staleness_seconds"
COMPACTED = 'osm_etcd_watch_restarts_total{reason="compacted"}'
ACCESS = "/osm/objects/access.smi-spec.io/TrafficTarget/server/access"
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
        return objects.target(
            "server", "access", "server", [("client", "client")], ("HTTPRouteGroup", "routes", list(matches))
        )

    def start_load(self):
        """Client and server with a proxy each, at two controllers, and load between them."""
        client, server = self.add_client_and_server()
        self.rig.mesh.write(
            "routes.yaml", objects.routes("server", "none", none={"pathRegex": "/none", "methods": ["GET"]})
        )
        self.start_mesh()
        self.serve(server)
        self.wait_for_status(client, 200, "server.server")
        self.assertNotEqual(client.at, server.at)
        load = Load(client, interval=0.02)
        self.addCleanup(load.stop)
        return client, server, load

    def closed(self):
        """The policy that lets the client read nothing that is there."""
        return objects.target(
            "server", "access", "server", [("client", "client")], ("HTTPRouteGroup", "none", ["none"])
        )

    # -- tests ----------------------------------------------------------------------------------
    def test_a_member_and_a_controller_are_killed_under_load_and_no_request_fails(self):
        client, server, load = self.start_load()
        self.assertEqual((client.at, server.at), ("controller-1", "controller-2"))
        keys = self.rig.keys()
        self.assertIn(ACCESS, keys)
        self.assertIn("/osm/ca", keys)
        load.check(self)

        with self.subTest("one member and one controller are killed at once"):
            self.rig.stop_controller(signal.SIGKILL)
            load.check(self, more=200)
            self.rig.wait_until_ready()

        with self.subTest("a policy that is applied now takes effect"):
            load.stop()
            self.assertEqual(load.failures, [])
            self.assertEqual(self.apply("controller-3", self.closed()), "TrafficTarget server/access configured\n")
            self.wait_for_status(client, NO_ROUTE, "server.server")
            self.apply("controller-2", self.access("books"))
            self.wait_for_status(client, 200, "server.server")

        with self.subTest("both come back, the controller without any state and with the same CA"):
            load = Load(client, interval=0.02)
            self.addCleanup(load.stop)
            self.rig.start_controller()
            self.wait_until_synced()
            self.assertEqual(sorted(self.proxies()), ["client", "server"])
            fingerprints = {
                json.loads(self.rig.osm("certificate", "status", "-o", "json", at=name))["roots"][0]["fingerprint"]
                for name in CONTROLLERS
            }
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
        self.assertEqual(self.rig.count_of("controller-3", COMPACTED), 0)
        # Its watch breaks while it stands still, and the revision that it asks for is compacted.
        reset = ("OUTPUT", "-p", "tcp", "--dport", str(CLIENT_PORT), "-j", "REJECT", "--reject-with", "tcp-reset")
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
            host.run("iptables", "-D", *reset)
            os.kill(stopped.pid, signal.SIGCONT)

        def told():
            names = self.rig.osm("get", "serviceaccounts", "-n", "server", at="controller-3")
            if "more-29 " not in names or "more-0 " in names:
                raise NotYet(names)
            return True

        wait_for("controller-3 knows the newest objects", told, 60, retry=(CommandFailed,))
        status = "status", "traffictarget", "server/access", "--wait", "--timeout", "30s", "-o", "json"
        shown = json.loads(self.rig.osm(*status, at="controller-3"))  # until the others have told it of their proxies
        self.assertEqual(shown["phase"], "Applied")
        self.rig.wait_until_ready(timeout=60)
        self.assertEqual([self.rig.count_of(name, COMPACTED) for name in CONTROLLERS], [0, 0, 1])

    def test_a_controller_that_is_cut_off_takes_no_new_proxies_until_it_is_back(self):
        self.rig.controller_flags = ("--stale-after", "15")
        client, server = self.add_client_and_server()
        late = self.add_machine("late", "10.200.0.13")
        self.rig.place(client, "controller-3")
        self.rig.start_controller()
        for machine in (client, server, late):
            machine.bootstrap()
        for machine in (client, server):
            machine.start_proxy()
        self.serve(server)
        self.wait_for_status(client, 200, "server.server")
        load = Load(client, interval=0.05)
        self.addCleanup(load.stop)
        self.assertEqual((client.at, late.at), ("controller-3", "controller-3"))

        # A replica that has not heard of others goes on alone. It looks for them, and then tells its staleness.
        wait_for("it knows of the others", lambda: self.rig.count_of("controller-3", "osm_replicas") == 3)
        for _ in range(2):
            before = self.rig.count_of("controller-3", STALENESS)
            wait_for("its next look", lambda: self.rig.count_of("controller-3", STALENESS) != before)

        firewall = ("OUTPUT", "-p", "tcp", "--dport", str(CLIENT_PORT), "-j", "DROP")
        self.rig.hosts["controller-3"].run("iptables", "-A", *firewall)

        def refuses():
            answer = self.rig.http("controller-3", "/health/ready")
            if answer[0] != 503 or "proxies connect to that one" not in answer[1]:
                raise NotYet(answer)
            return answer[1]

        wait_for("it is not ready", refuses, 30)
        for other in ("controller-1", "controller-2"):
            self.assertEqual(self.rig.http(other, "/health/ready")[0], 200)
        late.start_proxy(wait=False)
        late.proxy.wait_for_log("stale: this replica has not reached the store of the mesh")
        with self.subTest("the proxy that it has stays configured, and the new one is not"):
            self.assertEqual(sorted(self.proxies()), ["client", "server"])
            self.assertNotEqual(late.admin("/ready")[0], 200)
            load.check(self)

        self.rig.hosts["controller-3"].run("iptables", "-D", *firewall)
        self.rig.wait_until_ready(30)
        late.wait_until_live(10)
        self.wait_until_synced()
        load.check(self)

    def test_objects_are_validated_and_conflicts_are_told(self):
        self.rig.start_controller()
        first = objects.mesh_config()
        self.assertEqual(self.apply("controller-1", first), "MeshConfig osm-system/osm-mesh-config created\n")
        self.assertEqual(self.apply("controller-2", first), "MeshConfig osm-system/osm-mesh-config unchanged\n")
        bad = objects.target("server", "bad", "server", [("client", "client")], ("NoSuchKind", "routes", ["x"]))
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

        with self.assertRaisesRegex(CommandFailed, "is in etcd; leave --mesh-dir out"):
            self.rig.osm("deny", "account", "server/server", "--mesh-dir", self.rig.directory, at="controller-1")

        editor = self.rig.directory / "editor.sh"
        editor.write_text("#!/bin/sh\nsed -i 's/PolicyMode: true/PolicyMode: false/' \"$1\"\n")
        editor.chmod(0o755)
        os.environ["EDITOR"] = str(editor)
        self.addCleanup(os.environ.pop, "EDITOR")
        self.assertEqual(
            self.rig.osm("edit", *name, at="controller-2"), "MeshConfig osm-system/osm-mesh-config configured\n"
        )
        shown = self.rig.osm("get", *name, "-o", "yaml", at="controller-3")
        self.assertIn("enablePermissiveTrafficPolicyMode: false", shown)

    def test_an_account_is_denied_at_any_controller(self):
        client, server = self.add_client_and_server()
        self.start_mesh()
        self.serve(server)
        self.wait_for_status(client, 200, "server.server")
        denied = "/osm/objects/workload.openservicemesh.io/Denylist/osm-system/account.client.client"
        told = self.rig.osm("deny", "account", "client/client", "--reason", "stolen", at="controller-3")
        self.assertIn("Denylist osm-system/account.client.client: Applied", told)
        self.assertIn(denied, self.rig.keys())
        refused = (REFUSED, 403, NO_ROUTE)
        wait_for("it is refused", lambda: client.get("server.server", meshcase.PORT, "/books-bought")[0] in refused)
        self.rig.osm("deny", "remove", "client/client", at="controller-2")
        self.assertNotIn(denied, self.rig.keys())
        self.wait_for_status(client, 200, "server.server", timeout=60)

    def test_roots_follow_one_another_from_any_controller(self):
        self.rig.start_controller()
        states = {"(own)": "inactive"}
        for name, at in (("next", "controller-1"), ("last", "controller-3")):
            self.rig.osm("certificate", "rotate", "--root", "--name", name, "--wait", "50s", at=at)
            roots = json.loads(self.rig.osm("certificate", "status", "-o", "json", at="controller-2"))["roots"]
            self.assertEqual({root["name"]: root["state"] for root in roots}, states | {name: "signing"})
            states[name] = "inactive"
        kept = json.loads(self.rig.osm("get", "MeshRootCertificate", "-o", "json", at="controller-1"))["objects"]
        roles = {root["metadata"]["name"]: root["spec"]["role"] for root in kept}
        self.assertEqual(roles, {"next": "inactive", "last": "active"})

    def edit(self, *lines):
        """What `osm edit` at controller-2 prints, with a shell script in place of an editor. $1 is
        the file."""
        editor = self.rig.directory / "editor.sh"
        editor.write_text("\n".join(("#!/bin/sh -e", *lines, "")))
        editor.chmod(0o755)
        with mock.patch.dict(os.environ, EDITOR=str(editor), TMPDIR=str(self.edited)):
            return self.rig.osm("edit", "traffictarget", "server/access", at="controller-2")

    def edit_fails(self, why, *lines):
        """The text that `osm edit` keeps after it has failed. It is the only file left."""
        with self.assertRaisesRegex(CommandFailed, why) as failed:
            self.edit(*lines)
        kept = re.search(r"nothing was written; your text is in (\S+)", str(failed.exception))[1]
        text = pathlib.Path(kept).read_text()
        pathlib.Path(kept).unlink()
        self.assertEqual(list(self.edited.iterdir()), [])
        return text

    def test_files_as_people_write_them_are_applied(self):
        self.rig.mesh.write("shop.yaml", *objects.shop())
        self.rig.start_controller()

        def deciding(at, path):
            asked = f"source=shop%2Fweb&destination=shop%2Fapi&path={path}"
            status, told = self.rig.admin_at(at, f"/v1/policy/explain?{asked}")
            return status == 200 and (told["verdict"], told["ways"][0]["steps"][-1]["object"])

        for what, one in inputs.accepted().items():
            with self.subTest(what):
                file = self.rig.directory / one.name
                file.write_text(one.text)
                made = self.rig.osm("apply", "-f", file, *PATIENTLY).splitlines()
                group = one.target.replace("TrafficTarget", "HTTPRouteGroup")
                self.assertEqual(sorted(made), [f"{group} created", f"{one.target} created"])
                for name in CONTROLLERS:
                    wait_for(f"{name} allows it", lambda: deciding(name, one.path) == ("allowed", one.target), 20)
                self.assertEqual(self.rig.problems(), [])
        shown = json.loads(self.rig.osm("get", "httproutegroup", "shop/escapes", "-o", "json"))
        self.assertEqual(shown["metadata"]["annotations"], {"note": inputs.CHARACTER})

        for made in (inputs.without_namespace(*kind) for kind in inputs.namespaced_kinds()):
            with self.subTest("without a namespace", kind=made["kind"]):
                status, told = self.rig.admin_at("controller-1", "/v1/objects/apply", "POST", {"objects": [made]})
                self.assertEqual((status, told["error"]["code"]), (400, "invalid-field"), told)
                self.assertIn(f"{made['kind']} lost: metadata.namespace: required", told["error"]["message"])

    def test_an_edit_that_comes_late_or_is_invalid_writes_nothing_and_is_kept(self):
        self.edited = self.rig.directory / "edited"
        self.edited.mkdir()
        self.rig.start_controller()
        self.apply("controller-1", self.access("books"))
        faster = self.rig.directory / "faster.json"
        faster.write_text(json.dumps(self.access("books", "faster")))

        def value():
            pairs = self.rig.etcd("kv/range", key=encoded(ACCESS))["kvs"]
            return pairs[0]["mod_revision"], base64.b64decode(pairs[0]["value"]).decode()

        with self.subTest("another author is faster"):
            mine = self.edit_fails(
                r"was changed since version .* \[conflict\]",
                "sed -i 's/books/mine/' \"$1\"",
                f"{self.rig.programs.osm} apply -f {faster} --state-dir {self.rig.state_of('controller-1')}",
            )
            self.assertIn("mine", mine)
            self.assertIn("faster", value()[1])
            self.assertNotIn("mine", value()[1])

        before = value()
        with self.subTest("an invalid object"):
            self.assertIn(
                "NoSuchKind",
                self.edit_fails(r"spec\.rules\[0\]\.kind: must be", "sed -i 's/HTTPRouteGroup/NoSuchKind/' \"$1\""),
            )
        with self.subTest("no YAML"):
            self.assertIn("{", self.edit_fails(r"edited/osm-edit-\S+\.yaml", "echo '{' >>\"$1\""))
        with self.subTest("an editor that fails, and one that changes nothing"):
            with self.assertRaisesRegex(CommandFailed, "failed; nothing was written"):
                self.edit("sed -i 's/books/mine/' \"$1\"", "exit 1")
            self.assertEqual(self.edit("true"), "")
        self.assertEqual(value(), before)
        self.assertEqual(list(self.edited.iterdir()), [])


if __name__ == "__main__":
    meshcase.main()
