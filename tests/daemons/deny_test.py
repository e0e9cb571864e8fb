#!/usr/bin/python3
"""`osm deny` writes, waits, lists and takes back, loses nothing to commands beside it, and denied
identities get no certificate.

usage: deny_test.py --bin DIRECTORY
"""

import concurrent.futures
import contextlib
import fcntl
import json
import os
import pathlib

from lib.mesh import objects
from lib.mesh.daemon import ShopTest, run
from lib.net.processes import wait_for

UUID = "3f0e3b9a-3a55-4c0f-9d0e-6a8a0a1f1c7d"


class Deny(ShopTest):
    def deny(self, *arguments):
        """(exit code, stdout, stderr)."""
        return self.osm("deny", *arguments, "--mesh-dir", self.mesh)

    def denied(self):
        """{name: (kind, object, reason)}."""
        code, out, err = self.osm("deny", "list", "-o", "json")
        self.assertEqual(code, 0, err)
        return {d["name"]: (d["kind"], d["object"], d["reason"]) for d in json.loads(out)["denied"]}

    def test_an_account_is_denied_listed_and_admitted_again(self):
        code, out, err = self.deny("account", "shop/web", "--reason", 'a "lost" laptop: yes')
        self.assertEqual(code, 0, err)
        self.assertIn("Denylist osm-system/account.shop.web: Applied", out)
        self.assertEqual(
            self.denied(), {"shop/web": ("account", "Denylist osm-system/account.shop.web", 'a "lost" laptop: yes')}
        )
        with self.subTest("its machines get no certificate"):
            code, _, err = self.bootstrap("web-1", self.folder / "out")
            self.assertEqual(code, 3)
            self.assertIn("gets no certificate: Denylist osm-system/account.shop.web denies it", err)
            self.assertEqual(self.bootstrap("api-1", self.folder / "api")[0], 0)
        with self.subTest("a check of policies says so"):
            code, out, _ = self.osm("policy", "check", "shop/web", "shop/api")
            self.assertEqual(code, 3)
            self.assertIn("Denylist osm-system/account.shop.web denies it", out)
        with self.subTest("the status of the object is its own"):
            self.assertEqual(self.osm("status", "denylist", "osm-system/account.shop.web")[0], 0)

        self.assertEqual(self.deny("proxy", UUID)[0], 0)
        self.assertEqual(set(self.denied()), {"shop/web", UUID})
        self.assertIn(UUID, self.osm("deny", "list")[1])
        code, _, err = self.deny("remove", "shop/web")
        self.assertEqual(code, 0, err)
        self.assertEqual(set(self.denied()), {UUID})
        self.assertEqual(self.bootstrap("web-1", self.folder / "out")[0], 0)
        self.assertEqual(self.osm("policy", "check", "shop/web", "shop/api")[0], 0)

    def test_marks_that_turn_the_direction_of_a_reason_are_escaped_wherever_it_is_read(self):
        marks = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
        reason = f"lost {marks}\x1b[2J\u009b1m laptop"
        shown = [self.deny("account", "shop/web", "--reason", reason)]
        for command in (("deny", "list"), ("deny", "list", "-o", "json"), ("deny", "list", "-o", "yaml")):
            shown.append(self.osm(*command))
            self.assertEqual(shown[-1][0], 0, shown[-1])
            self.assertIn("\\u202e", shown[-1][1], command)
        shown.append(self.bootstrap("web-1", self.folder / "out"))
        self.assertIn("\\u202e", shown[-1][2])  # a refusal quotes the reason
        for code, *texts in shown:
            for text in texts:
                self.assertFalse([mark for mark in marks + "\x1b\u009b" if mark in text], text)
        self.assertEqual(self.denied()["shop/web"][2], reason)  # escapes of JSON: the text itself is kept

    def test_commands_at_once_lose_no_denial(self):
        def at_once(*commands):
            with concurrent.futures.ThreadPoolExecutor(len(commands)) as pool:
                ended = list(pool.map(lambda command: self.deny(*command), commands))
            self.assertEqual([0] * len(commands), [code for code, _, _ in ended], ended)

        accounts = [f"shop/app-{number}" for number in range(16)]
        at_once(*(("account", account) for account in accounts))
        self.assertEqual(set(self.denied()), set(accounts))
        at_once(*(("remove", account) for account in accounts[:8]), ("proxy", UUID))
        self.assertEqual(set(self.denied()), {UUID, *accounts[8:]})
        self.assertEqual(sorted(path.name for path in self.mesh.iterdir()), ["osm-denylist.yaml", "shop.yaml"])

    def test_a_command_waits_for_another_one_and_writes_nothing_if_that_one_does_not_end(self):
        other = os.open(self.mesh, os.O_RDONLY)
        self.addCleanup(os.close, other)
        fcntl.flock(other, fcntl.LOCK_EX)
        code, out, err = self.deny("account", "shop/web", "--wait", "200ms")
        self.assertEqual((code, out), (1, ""))
        self.assertIn(f"{self.mesh}: another `osm deny` holds the lock", err)
        self.assertIn("nothing was written", err)
        self.assertFalse((self.mesh / "osm-denylist.yaml").exists())
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(self.deny, "account", "shop/web")
            wait_for("it tries to take the lock", lambda: self.opened_by_others(self.mesh))
            fcntl.flock(other, fcntl.LOCK_UN)
            self.assertEqual(waiting.result()[0], 0)
        self.assertEqual(set(self.denied()), {"shop/web"})

    def opened_by_others(self, directory):
        """True if an `osm` has the directory open."""
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (process / "comm").read_text() == "osm\n" and any(
                    os.readlink(fd) == str(directory) for fd in (process / "fd").iterdir()
                ):
                    return True
        return False

    def test_a_denial_that_the_mesh_does_not_have_is_a_failure(self):
        self.assertEqual(self.deny("account", "shop/web")[0], 0)
        self.assertEqual(self.deny("remove", "shop/web")[0], 0)
        other = self.folder / "other"
        other.mkdir()
        code, _, err = self.osm("deny", "account", "shop/web", "--mesh-dir", other)
        self.assertEqual(code, 1)
        self.assertIn("Denylist osm-system/account.shop.web is not in the mesh", err)
        self.assertIn("--mesh-dir", err)

    def test_an_identity_that_nobody_has_is_denied_with_a_warning(self):
        code, out, err = self.deny("account", "shop/wbe")
        self.assertEqual(code, 0, err)
        self.assertIn("No proxy with this identity was connected", out)
        self.assertIn("warning: the mesh has no ServiceAccount shop/wbe", err)
        code, out, err = self.deny("account", "shop/web")
        self.assertEqual((code, err), (0, ""))
        other = self.folder / "nobody-reads"
        other.mkdir()
        code, _, err = self.osm("deny", "account", "shop/api", "--mesh-dir", other, "--wait", "1s")
        self.assertNotEqual(code, 0)
        self.assertIn("is not in the mesh: it does not exist", err)
        self.assertIn(f"{other}/osm-denylist.yaml; if no controller reads that directory", err)

    def test_a_denied_uuid_gets_no_certificate(self):
        self.write("box.yaml", objects.machine("shop", "box", "10.1.0.9", "web", uuid=UUID))
        self.assertEqual(self.deny("proxy", UUID)[0], 0)
        code, _, err = self.bootstrap("box", self.folder / "box")
        self.assertEqual(code, 3)
        self.assertIn(f"Denylist osm-system/proxy.{UUID} denies it", err)
        self.assertEqual(self.bootstrap("web-1", self.folder / "web")[0], 0)

    def test_arguments_that_name_nothing_are_refused_and_nothing_is_written(self):
        for arguments, says in (
            (("account", "web"), "is not NAMESPACE/NAME of a service account;"),
            (("account", "Shop/web"), "is not NAMESPACE/NAME"),
            (("account", UUID), "is not NAMESPACE/NAME"),
            (("proxy", "a-uuid"), "is not a proxy's UUID"),
            (("proxy", "shop/web"), "is not a proxy's UUID"),
            (("remove", "web"), "service account or a proxy's UUID"),
            (("account", "shop/web", "--wait", "soon"), "write 500ms, 30s, 5m or 1h30m"),
            (("account", "shop/web", "--reason", "x" * 257), "at most 256"),
            (("remove", "shop/web"), "is not denied by"),
        ):
            with self.subTest(arguments):
                code, out, err = self.deny(*arguments)
                self.assertEqual((code, out), (1 if says == "is not denied by" else 2, ""))
                self.assertIn(says, err)
        self.assertFalse((self.mesh / "osm-denylist.yaml").exists())

    def test_a_file_with_more_than_denylists_is_not_overwritten(self):
        self.write("osm-denylist.yaml", objects.namespace("kept"))
        before = (self.mesh / "osm-denylist.yaml").read_text()
        code, _, err = self.deny("account", "shop/web")
        self.assertEqual(code, 1)
        self.assertIn("move Namespace kept to another file", err)
        self.assertEqual((self.mesh / "osm-denylist.yaml").read_text(), before)

    def test_a_bad_element_is_a_problem_and_the_others_are_denied(self):
        self.write("list.yaml", objects.denylist("mine", [("shop", "web"), ("Shop", "x")], ["no"]))
        wait_for("the good element", lambda: set(self.denied()) == {"shop/web"})
        problems = self.osm("problems")[1]
        self.assertIn("spec.serviceAccounts[1].namespace", problems)
        self.assertIn("spec.proxyUUIDs[0]", problems)

    def test_a_denial_outlives_a_restart_of_the_controller(self):
        self.assertEqual(self.deny("account", "shop/web")[0], 0)
        self.assertEqual(self.controller.stop(), 0)
        self.controller = self.start()
        self.controller.wait_until_ready()
        self.assertEqual(set(self.denied()), {"shop/web"})
        self.assertEqual(self.bootstrap("web-1", self.folder / "out")[0], 3)


if __name__ == "__main__":
    run()
