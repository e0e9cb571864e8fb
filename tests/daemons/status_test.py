#!/usr/bin/python3
"""`osm status` tells the status of objects while no proxy is connected, and refuses wrong arguments.

usage: status_test.py --bin DIRECTORY
"""

import contextlib
import json
import os
import pty
import signal
import subprocess

from lib.mesh import objects
from lib.mesh.daemon import ShopTest, run
from lib.net.processes import wait_for


class Status(ShopTest):
    def status(self, *arguments):
        code, out, err = self.osm("status", *arguments, "-o", "json")
        return code, json.loads(out) if out else err

    def test_an_object_that_nobody_connected_needs_is_applied_and_the_absent_are_named(self):
        code, answer = self.status("traffictarget", "shop/web-api")
        self.assertEqual((code, answer["phase"]), (0, "Applied"), answer)
        self.assertEqual((answer["concerned"], answer["applied"]), (0, 0))
        self.assertEqual(answer["not_connected"], ["shop/api-1", "shop/web-1"])
        self.assertEqual(answer["object"], "TrafficTarget shop/web-api")
        self.assertGreaterEqual(answer["generation"], 1)
        code, out, _ = self.osm("status", "tt", "shop/web-api")
        self.assertEqual(code, 0)
        self.assertTrue(out.startswith("TrafficTarget shop/web-api: Applied\n"), out)
        self.assertIn("Not connected: shop/api-1, shop/web-1", out)

    def test_kinds_may_be_typed_in_lower_case_in_the_plural_and_short(self):
        for kind, name in (
            ("TrafficTarget", "shop/web-api"),
            ("traffictargets", "shop/web-api"),
            ("HTR", "shop/books"),
            ("svc", "shop/api"),
            ("vm", "shop/web-1"),
            ("VirtualMachine", "shop/web-1"),
            ("ns", "shop"),
            ("meshconfig", "osm-mesh-config"),
        ):
            with self.subTest(kind):
                self.assertEqual(self.status(kind, name)[0], 0)
        self.assertEqual(self.status("tt", "web-api", "-n", "shop")[0], 0)

    def test_unanswerable_questions_are_answered_with_the_syntax(self):
        for arguments, says in (
            (["secret", "shop/x"], "is no kind of the mesh"),
            (["tt", "web-api"], "Write NAMESPACE/NAME"),
            (["tt", "shop/web-api", "-n", "other"], "--namespace says other"),
            (["tt", "shop/"], "write NAMESPACE/NAME"),
            (["tt", "shop/web-api", "--timeout", "soon"], "write 500ms, 30s, 5m or 1h30m"),
            (["tt", "shop/none"], "is not in the mesh"),
        ):
            with self.subTest(arguments):
                code, out, err = self.osm("status", *arguments)
                self.assertEqual((code, out), (1 if says == "is not in the mesh" else 2, ""))
                self.assertIn(says, err)
        self.assertEqual(self.controller.admin("/v1/status?kind=Secret&name=x")[0], 404)
        self.assertEqual(self.controller.admin("/v1/status?kind=Service")[0], 400)
        self.assertEqual(self.controller.admin("/v1/status?kind=Service&namespace=a&name=b")[0], 404)

    def test_writes_before_the_question_are_in_its_answer(self):
        generation = self.status("tt", "shop/web-api")[1]["generation"]
        for round_trip in range(20):
            added = objects.books_for(f"more-{round_trip}", "api", "web")
            self.write(f"more-{round_trip}.yaml", added)
            code, answer = self.status("tt", f"shop/more-{round_trip}", "--wait", "--timeout", "5s")
            self.assertEqual((code, answer["phase"]), (0, "Applied"), answer)
            self.assertGreater(answer["generation"], generation)
            generation = answer["generation"]

    def test_a_deleted_object_is_applied_when_it_is_gone_and_says_so(self):
        self.write("more.yaml", objects.books_for("more", "api", "web"))
        self.assertEqual(self.status("tt", "shop/more", "--wait")[0], 0)
        (self.mesh / "more.yaml").unlink()
        code, answer = self.status("tt", "shop/more", "--wait")
        self.assertEqual(code, 0)
        self.assertTrue(answer["removed"], answer)
        self.assertIn("(it is not in the mesh)", self.osm("status", "tt", "shop/more")[1])

    def test_an_invalid_object_is_rejected_with_its_file_and_field(self):
        broken = objects.books_for("broken", "web", "api")
        broken["spec"]["rules"][0]["kind"] = "Nonsense"
        self.write("broken.yaml", broken)
        # It does not wait for what cannot be: osm() ends a command after a minute.
        code, out, _ = self.osm("status", "tt", "shop/broken", "--wait", "--timeout", "10m")
        self.assertEqual(code, 1)
        self.assertIn("TrafficTarget shop/broken: Rejected", out)
        self.assertIn("broken.yaml", out)
        self.assertIn("spec.rules[0].kind", out)

    def test_a_present_object_without_effect_is_rejected_with_the_reason(self):
        self.write(
            "idle.yaml",
            objects.target("shop", "orphan", "api", [("shop", "web")], ("HTTPRouteGroup", "missing", ["read"])),
            objects.retry("shop", "again", "web", [("shop", "api")]),
            objects.split("shop", "b", "api", api=1),
            objects.split("shop", "a", "api", api=1),
            objects.upstream_setting("shop", "none", "gone.shop.svc.cluster.local", connectionSettings={}),
            objects.mesh_config() | {"metadata": {"name": "osm-mesh-config", "namespace": "shop"}},
            objects.namespace("far", labels={}),
            objects.target("far", "x", "api", [("shop", "web")], ("HTTPRouteGroup", "books", ["read"])),
            objects.target("far", "y", "api", [("shop", "web")], ("HTTPRouteGroup", "books", ["read"])),
        )
        for kind, name, says in (
            ("tt", "shop/orphan", "HTTPRouteGroup shop/missing is not there"),
            ("rty", "shop/again", "enableRetryPolicy"),
            ("ts", "shop/b", "shop/a already splits"),
            ("uts", "shop/none", "Service shop/gone is not there"),
            ("mc", "shop/osm-mesh-config", "the mesh reads MeshConfig osm-system/osm-mesh-config"),
            ("tt", "far/x", "namespace far is not in the mesh"),
            ("tt", "far/y", "namespace far is not in the mesh"),
        ):
            with self.subTest(name):
                code, out, err = self.osm("status", kind, name, "--wait", "--timeout", "20s")
                self.assertEqual(code, 1, out + err)
                self.assertRegex(out, rf"{name}: Rejected")
                self.assertIn(says, " ".join(out.split()))
                self.assertIn("idle.yaml", out)
        for kind, name in (("ts", "shop/a"), ("mc", "osm-system/osm-mesh-config")):
            self.assertEqual(self.status(kind, name)[1]["phase"], "Applied", name)

    def test_an_object_whose_namespace_leaves_the_mesh_is_rejected_and_a_deleted_one_is_not(self):
        self.write("far.yaml", objects.namespace("far"), objects.routes("far", "books", read={"methods": ["GET"]}))
        self.assertEqual(self.status("htr", "far/books", "--wait")[0], 0)
        self.write(
            "far.yaml", objects.namespace("far", labels={}), objects.routes("far", "books", read={"methods": ["GET"]})
        )
        code, answer = wait_for("it is rejected", lambda: self.status("htr", "far/books") if self.left("far") else None)
        self.assertEqual((code, answer["phase"], answer["removed"]), (1, "Rejected", True))
        (self.mesh / "far.yaml").unlink()
        wait_for("it is gone", lambda: self.status("htr", "far/books")[0] == 0)

    def left(self, ns):
        return f"namespace {ns} is not in the mesh" in self.osm("problems")[1]

    def test_a_controller_that_is_not_ready_is_waited_for_and_ctrl_c_ends_the_wait(self):
        self.assertEqual(self.controller.stop(), 0)
        self.write_text("half.yaml", "not: [yaml")
        self.controller = self.start()
        wait_for("the admin API answers", lambda: self.osm("version")[0] == 0)
        command = [self.bin / "osm", "status", "tt", "shop/web-api", "--state-dir", self.state]
        asked = subprocess.run(command, capture_output=True, text=True, timeout=30)
        self.assertEqual(asked.returncode, 5)
        self.assertIn("not known yet", asked.stdout + asked.stderr)
        ours, theirs = pty.openpty()
        waiting = subprocess.Popen([*command, "--wait"], stdout=theirs, stderr=theirs)
        self.addCleanup(lambda: waiting.poll() is None and waiting.kill())
        os.close(theirs)
        os.set_blocking(ours, False)
        seen = b""

        def told():  # on a terminal, it says what it waits for
            nonlocal seen
            with contextlib.suppress(BlockingIOError):
                seen += os.read(ours, 1024)
            return b"not known yet" in seen

        wait_for("the reason", told)
        waiting.send_signal(signal.SIGINT)
        self.assertEqual(waiting.wait(timeout=10), -signal.SIGINT)
        seen += os.read(ours, 1024)
        self.assertTrue(seen.endswith(b"\x1b[K"), seen)  # the line is clean again
        os.close(ours)


if __name__ == "__main__":
    run()
