#!/usr/bin/python3
"""Every command of osm has the same exit codes (done, failed, wrong usage, denied, could not ask, not yet),
errors as JSON, one grammar of times, completion in bash, zsh and fish, and a version.

usage: usage_test.py --bin DIRECTORY
"""

import concurrent.futures
import http.server
import json
import pathlib
import re
import socket
import socketserver
import subprocess
import threading
import time
import urllib.parse

from lib.mesh import objects
from lib.mesh.daemon import DaemonTest, ShopTest, run
from lib.net.processes import wait_for

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
CLI_PAGE, ERROR_PAGE = DOCS / "cli.md", DOCS / "error-codes.md"
# Commands that ask the controller one question, or more.
ASKING = (
    ["problems"],
    ["graph"],
    ["check"],
    ["version"],
    ["proxy", "list"],
    ["proxy", "list", "--expected"],
    ["proxy", "services", "shop/6ba7b810-9dad-41d1-80b4-00c04fd430c8"],
    ["proxy", "get", "config_dump", "shop/web-1"],
    ["proxy", "get", "routes", "shop/web-1"],
    ["policy", "check", "shop/web", "shop/api"],
    ["policy", "list"],
    ["policy", "check-pods", "shop/web-1", "shop/api-1"],
    ["policy", "check-conflicts"],
    ["policy", "explain", "shop/web", "shop/api"],
    ["service", "get", "shop/api"],
    ["identity", "get", "shop/api"],
    ["verify", "connectivity", "--from-pod", "shop/web-1", "--to-pod", "shop/api-1"],
    ["verify", "ingress", "--from-address", "192.0.2.1", "--to-service", "shop/api"],
    ["certificate", "list"],
    ["certificate", "status"],
    ["certificate", "rotate", "web.shop.cluster.local"],
    ["certificate", "distrust", "next"],
    ["deny", "list"],
    ["status", "traffictarget", "shop/web-api"],
    ["proxy", "get", "routes", "shop/web-1"],
    ["vm", "bootstrap", "web-1", "-n", "shop", "--controller", "192.0.2.1:15128", "--out", "/none"],
)
ON_A_CLUSTER = (
    ["install"],
    ["upgrade"],
    ["uninstall", "--force"],
    ["check"],
    ["check", "--pre"],
    ["problems"],
    ["proxy", "list"],
)


class Refusing(http.server.BaseHTTPRequestHandler):
    """A server that answers each request with `status` and `code`; status 0: never."""

    status, code = 500, "internal"

    def answer(self):
        if self.status == 0:
            time.sleep(30)
            return
        self.send(self.status, {"error": {"code": self.code, "message": "it is refused"}})

    def send(self, status, answer):
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = answer

    def log_message(self, *_):
        pass

    def address_string(self):
        return "local"


class LocalServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads, block_on_close = True, False


class Refusals(DaemonTest):
    """Commands whose controller refuses, or is away."""

    def refuse(self, status, code):
        """From here on the controller answers every request so."""
        self.serve(type("Handler", (Refusing,), {"status": status, "code": code}))

    def serve(self, handler):
        """From here on `handler` is the controller."""
        self.state.mkdir(exist_ok=True)
        (self.state / "admin.sock").unlink(missing_ok=True)
        server = LocalServer(str(self.state / "admin.sock"), handler)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)

    def kubeconfig(self):
        """Of a cluster whose API server is away."""
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]
        path = self.folder / "kubeconfig"
        path.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "c",
                    "clusters": [{"name": "c", "cluster": {"server": f"https://127.0.0.1:{port}"}}],
                    "users": [{"name": "c", "user": {"token": "x"}}],
                    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
                }
            )
        )
        return path

    def on_cluster(self, *arguments):
        return self.osm(*arguments, "--kubeconfig", self.kubeconfig(), state=False)

    def test_a_refusal_ends_with_the_exit_code_of_its_error(self):
        for status, code, expected in (
            (400, "invalid-argument", 2),
            (401, "", 3),
            (403, "permission-denied", 3),
            (404, "not-found", 1),
            (409, "conflict", 1),
            (500, "internal", 1),
            (500, "storage", 1),
            (503, "unavailable", 4),
            (503, "not-ready", 5),
            (504, "deadline-exceeded", 4),
            (502, "", 4),
            (400, "of-a-later-version", 2),
        ):
            with self.subTest(status=status, code=code):
                self.refuse(status, code)
                ended, out, err = self.osm("problems")
                self.assertEqual((ended, out), (expected, ""), err)

    def test_every_command_says_that_the_server_refused_its_caller(self):
        self.refuse(403, "permission-denied")
        for command in ASKING:
            with self.subTest(command):
                code, _, err = self.osm(*command)
                self.assertEqual(code, 3, err)
                self.assertIn("it is refused", err)

    def test_every_command_says_that_nobody_answers(self):
        for command in ASKING:
            with self.subTest(command):
                code, _, err = self.osm(*command)
                self.assertEqual(code, 4, err)
                self.assertIn("Is osm-controller running", err)
        for command in ON_A_CLUSTER:
            with self.subTest(command):
                code, _, err = self.on_cluster(*command)
                self.assertEqual(code, 4, err)
        self.assertEqual(self.osm("check", "--pre", "--kubeconfig", "/none", state=False)[0], 4)

    def test_a_controller_that_does_not_answer_in_time_is_not_asked(self):
        self.refuse(0, "")
        code, _, err = self.osm("problems", "--timeout", "200ms")
        self.assertEqual(code, 4)
        self.assertIn("--timeout", err)

    def test_a_controller_that_does_not_tell_the_place_of_its_mesh_is_no_wrong_usage(self):
        commands = ("certificate rotate --root", "deny account shop/web", "deny remove shop/web")
        for expected, refusal in ((4, None), (3, (403, "permission-denied")), (4, (503, "unavailable")), (4, (0, ""))):
            if refusal:
                self.refuse(*refusal)
            for command in commands:
                with self.subTest(command, refusal=refusal):
                    code, out, err = self.osm(*command.split(), "--timeout", "200ms")
                    self.assertEqual((code, out), (expected, ""), err)
                    self.assertIn("give --mesh-dir for a mesh in a directory", err)

    def error_of(self, *arguments, **more):
        """(exit code, the error) of a command with -o json."""
        code, out, err = self.osm(*arguments, "-o", "json", **more)
        self.assertEqual(err, "")
        return code, json.loads(out)["error"]

    def test_an_error_is_json_on_standard_output_if_the_answer_is(self):
        self.refuse(403, "permission-denied")
        for command in ASKING:
            if command[:2] == ["proxy", "get"]:  # JSON only
                continue
            with self.subTest(command):
                code, error = self.error_of(*command)
                self.assertEqual((code, error["code"], error["message"]), (3, "permission-denied", "it is refused"))
                self.assertIn("osm deny list", error["remedy"])
        self.assertEqual(self.osm("problems")[1:], ("", "osm: it is refused [permission-denied]\n"))
        for code in ("not-found", "unavailable", "conflict", "internal"):
            self.refuse(500, code)
            self.assertEqual(self.error_of("problems")[1]["code"], code)
        code, error = self.error_of("install", "--kubeconfig", self.kubeconfig(), state=False)
        self.assertEqual((code, error["code"]), (4, "unavailable"))
        code, error = self.error_of("install", "--set", "osm.none=1", state=False)
        self.assertEqual((code, error["code"]), (2, "invalid-field"))

    def test_a_denial_that_was_taken_back_meanwhile_is_one_error(self):
        mesh = self.mesh

        class TakenBack(Refusing):
            def do_GET(self):
                if self.path.startswith("/v1/status"):
                    (mesh / "osm-denylist.yaml").unlink()
                self.send(200, {"phase": "Applied", "object": "x", "removed": False})

        self.serve(TakenBack)
        code, error = self.error_of("deny", "account", "shop/web", "--mesh-dir", mesh)
        self.assertEqual((code, error["code"]), (1, "conflict"))
        self.assertIn("another command took it back", error["message"])

    def test_a_denial_that_is_written_but_not_confirmed_is_told(self):
        class Unconfirmed(Refusing):
            def do_GET(self):
                if self.path.startswith("/v1/version"):
                    self.send(200, {"mesh": "etcd:/osm"})
                elif self.path.startswith("/v1/status"):
                    self.send(403, {"error": {"code": "permission-denied", "message": "it is refused"}})
                else:
                    self.send(404, {"error": {"code": "not-found", "message": "there is no such object"}})

            def do_POST(self):
                self.send(200, {"written": True, "objects": [{"object": "x", "resourceVersion": "1"}]})

        self.serve(Unconfirmed)
        code, _, err = self.osm("deny", "account", "shop/web")
        self.assertEqual(code, 3, err)
        self.assertIn("osm: the denial is written in namespace osm-system", err)

    def serve_etcd(self, stored, asked, faults):
        """From here on a controller has the objects of a mesh in etcd. `faults`: of the next changes, the last
        one first: "conflict", or of a change that is made "lost" (no answer) and "repeated" (the conflict of the
        same request once more)."""

        class Etcd(Refusing):
            def do_GET(self):
                path, _, query = self.path.partition("?")
                name = urllib.parse.parse_qs(query).get("name", [""])[0]
                if path == "/v1/version":
                    self.send(200, {"mesh": "etcd:/osm"})
                elif path == "/v1/status":
                    self.send(200, {"phase": "Applied", "object": name, "removed": name not in stored})
                elif path == "/v1/roots":
                    signing, done = ("next", "old") if "next" in stored else ("old", "next")
                    domain = {"trust_domain": "cluster.local"}
                    roots = [{"name": signing, "state": "signing", "role": "active"} | domain]
                    roots += [{"name": name, "state": "inactive", "role": ""} | domain for name in (done, "(own)")]
                    self.send(200, {"roots": roots})
                elif path != "/v1/objects":
                    self.send(200, {"proxies": []})
                elif name in stored:
                    self.send(200, {"objects": [stored[name]]})
                else:
                    self.send(404, {"error": {"code": "not-found", "message": "there is no such object"}})

            def do_POST(self):
                (wanted,) = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["objects"]
                name = wanted["metadata"]["name"]
                version = wanted["metadata"].pop("resourceVersion")
                asked.append((self.path.partition("?")[0], name, version))
                result = {"object": name, "result": "configured", "resourceVersion": str(len(asked))}
                fault = faults.pop() if faults else None
                if fault == "conflict":
                    result["error"] = {"code": "conflict", "message": "was changed"}
                elif self.path.startswith("/v1/objects/delete"):
                    del stored[name]
                else:
                    wanted["metadata"]["resourceVersion"] = str(len(asked))
                    stored[name] = wanted
                if fault == "repeated":
                    result["error"] = {"code": "conflict", "message": "was changed"}
                if fault != "lost":
                    self.send(200, {"written": "error" not in result, "objects": [result]})

        self.serve(Etcd)

    def test_objects_in_etcd_are_changed_through_the_controller_in_the_version_that_was_read(self):
        stored, asked = {}, []
        self.serve_etcd(stored, asked, ["conflict"])
        name, apply, delete = "account.shop.web", "/v1/objects/apply", "/v1/objects/delete"
        code, _, err = self.osm("deny", "account", "shop/web", "--reason", "lost")
        self.assertEqual(code, 0, err)
        self.assertEqual(asked, [(apply, name, "0"), (apply, name, "0")])
        self.assertEqual(
            stored[name]["spec"],
            {"serviceAccounts": [{"namespace": "shop", "name": "web"}], "proxyUUIDs": [], "reason": "lost"},
        )
        stored[name]["metadata"]["labels"] = stored[name]["spec"]["later"] = {"kept": "yes"}
        self.assertEqual(self.osm("deny", "account", "shop/web", "--reason", "again")[0], 0)
        self.assertEqual(stored[name]["metadata"]["labels"], {"kept": "yes"})
        self.assertEqual((stored[name]["spec"]["later"], stored[name]["spec"]["reason"]), ({"kept": "yes"}, "again"))
        self.assertEqual(self.osm("deny", "remove", "shop/web")[0], 0)
        self.assertEqual(asked[2:], [(apply, name, "2"), (delete, name, "3")])
        code, error = self.error_of("deny", "remove", "shop/web")
        self.assertEqual((code, error["code"]), (1, "not-found"))
        self.assertIn("is not denied by Denylist osm-system/account.shop.web in namespace", error["message"])
        code, error = self.error_of("deny", "account", "shop/web", "--mesh-dir", self.mesh)
        self.assertEqual(code, 2)
        self.assertIn("this controller's mesh is in etcd; leave --mesh-dir out", error["message"])

        del asked[:]
        old = {"apiVersion": "config.openservicemesh.io/v1alpha2", "kind": "MeshRootCertificate"}
        old |= {"metadata": {"name": "old", "namespace": "osm-system", "resourceVersion": "77"}}
        stored["old"] = old | {"spec": {"role": "active", "provider": {"kept": True}}}
        code, out, err = self.osm("certificate", "rotate", "--root", "--name", "next")
        self.assertEqual(code, 0, err)
        self.assertIn("root next is declared in namespace osm-system", out)
        self.assertEqual(asked, [(apply, "next", "0"), (apply, "old", "77")])
        self.assertEqual(stored["old"]["spec"], {"role": "inactive", "provider": {"kept": True}})
        spec = stored["next"]["spec"]
        self.assertEqual((spec["role"], spec["trustDomain"]), ("active", "cluster.local"))

    def test_a_change_in_etcd_whose_answer_was_lost_is_a_change(self):
        stored, asked, faults = {}, [], []
        self.serve_etcd(stored, asked, faults)
        name, apply, delete = "account.shop.web", "/v1/objects/apply", "/v1/objects/delete"
        for fault in ("lost", "repeated"):
            for arguments, change in (
                (("account", "shop/web"), (apply, name, "0")),
                (("account", "shop/web", "--reason", "lost"), (apply, name, "1")),
                (("remove", "shop/web"), (delete, name, "2")),
            ):
                with self.subTest(fault, arguments=arguments):
                    faults.append(fault)
                    code, _, err = self.osm("deny", *arguments)
                    self.assertEqual(code, 0, err)
                    self.assertEqual(asked[-1], change)
                    self.assertEqual(faults, [])
            self.assertEqual(len(asked), 3)  # each was made once
            self.assertEqual(stored, {})
            del asked[:]

    def serve_roots(self, *roots):
        """From here on a controller has these roots: (name, state, role)."""
        known = [{"name": n, "state": s, "role": r, "trust_domain": "cluster.local"} for n, s, r in roots]

        class Directory(Refusing):
            def do_GET(self):
                self.send(200, {"roots": known})

        self.serve(Directory)

    def rotate(self, name, *more):
        return self.osm("certificate", "rotate", "--mesh-dir", self.mesh, "--name", name, "--wait", "1ms", *more)

    def test_a_declared_root_keeps_its_trust_domain(self):
        self.serve_roots(("(own)", "signing", ""))
        self.assertEqual(self.rotate("next")[0], 5)
        declared = (self.mesh / "osm-root-certificates.yaml").read_text()
        code, out, err = self.rotate("next", "--trust-domain", "other.example")
        self.assertEqual((code, out), (1, ""))
        self.assertIn("is there already, with the trustDomain cluster.local", err)
        self.assertEqual((self.mesh / "osm-root-certificates.yaml").read_text(), declared)
        self.assertEqual(self.rotate("next", "--trust-domain", "cluster.local")[0], 5)

    def test_a_rotation_does_not_wait_for_passive_roots(self):
        self.serve_roots(("(own)", "inactive", ""), ("kept", "trusted", "passive"), ("next", "signing", "active"))
        self.assertEqual(self.rotate("next")[0], 0)

    def test_roots_that_are_declared_at_once_are_all_declared(self):
        self.serve_roots(("(own)", "signing", ""))
        names = [f"root-{number}" for number in range(8)]
        with concurrent.futures.ThreadPoolExecutor(len(names)) as pool:
            ended = list(pool.map(self.rotate, names))
        self.assertEqual({5}, {code for code, _, _ in ended}, ended)
        declared = (self.mesh / "osm-root-certificates.yaml").read_text()
        self.assertEqual(sorted(re.findall(r'metadata: {"name":"([^"]+)"', declared)), names)
        self.assertEqual(declared.count('\n  role: "active"\n  trustDomain: "cluster.local"\n'), len(names))

    def test_an_active_root_that_is_elsewhere_is_not_passed_over(self):
        self.serve_roots(("(own)", "inactive", ""), ("old", "signing", "active"))
        code, out, err = self.rotate("next")
        self.assertEqual((code, out), (1, ""))
        self.assertIn("MeshRootCertificate osm-system/old is active in the mesh, but not in", err)
        self.assertIn("give the --mesh-dir / --osm-namespace of the mesh", err)
        self.assertFalse((self.mesh / "osm-root-certificates.yaml").exists())

    def test_a_root_that_another_file_wants_is_not_replaced(self):
        self.write("roots.yaml", objects.root("mine"))
        self.serve_roots(("(own)", "inactive", ""), ("mine", "signing", "active"))
        code, out, err = self.rotate("next")
        self.assertEqual((code, out), (1, ""))
        self.assertIn(f"MeshRootCertificate osm-system/mine is in another file, {self.mesh}/roots.yaml: edit it", err)
        self.assertIn("spec.role of the active root has to become inactive", err)
        self.assertFalse((self.mesh / "osm-root-certificates.yaml").exists())
        self.serve_roots(("(own)", "inactive", ""), ("mine", "signing", "inactive"))
        self.assertEqual(self.rotate("next")[0], 5)
        self.serve_roots(("mine", "inactive", "inactive"), ("next", "signing", "active"))
        self.assertEqual(self.rotate("last")[0], 5)
        declared = (self.mesh / "osm-root-certificates.yaml").read_text()
        self.assertEqual(
            re.findall(r'"name":"(\w+)".*\nspec:\n  role: "(\w+)"', declared),
            [("next", "inactive"), ("last", "active")],
        )

    def test_a_part_of_a_partial_answer_names_the_controllers_that_are_missing(self):
        answer = {
            "proxies": [{"name": "shop/web-1", "uuid": "u1", "identity": "shop/web", "services": ["shop/web"]}],
            "expected": [],
            "participants": ["u1", "u2"],
            "unanswered": ["osm-controller-b"],
        }

        class Partial(Refusing):
            def do_GET(self):
                self.send(200, answer)

        self.serve(Partial)
        for part in ("expected", "participants"):
            out = self.osm("proxy", "list", f"--{part}", "-o", "json")[1]
            self.assertEqual(json.loads(out), {name: answer[name] for name in (part, "unanswered")})
        rows = self.osm("proxy", "list", "--participants")[1].splitlines()[1:]
        cells = [row.split() for row in rows]
        self.assertEqual(cells, [["shop/web-1", "u1", "shop/web", "shop/web"], ["-", "u2", "-", "-"]])
        del answer["unanswered"]
        self.assertEqual(json.loads(self.osm("proxy", "list", "--expected", "-o", "json")[1]), {"expected": []})

    def test_a_denied_account_calls_nobody_in_permissive_mode(self):
        answer = {"identity": "shop/web", "mode": "permissive", "inbound": [], "outbound": [], "services": []}

        class Permissive(Refusing):
            def do_GET(self):
                self.send(200, answer)

        self.serve(Permissive)
        shown = self.osm("identity", "get", "shop/web")[1].splitlines()
        self.assertEqual(shown[1:3], ["Called by: -", "Calls:     -"])
        answer["inbound"] = answer["outbound"] = ["shop/api"]
        self.assertIn("Permissive mode", self.osm("identity", "get", "shop/web")[1])

    def test_wrong_usage_is_json_too(self):
        for command, says in (
            (["nonsense"], "'nonsense' is no command; there are: install"),
            (["status", "tt"], "NAME is required"),
            (["status", "secret", "shop/x"], "is no kind of the mesh"),
            (["problems", "--none"], "--none"),
        ):
            with self.subTest(command):
                code, error = self.error_of(*command)
                self.assertEqual((code, error["code"]), (2, "invalid-argument"))
                self.assertIn(says, error["message"])


class Usage(DaemonTest):
    def test_commands_that_do_not_exist_are_wrong_usage(self):
        for command in (["nonsense"], ["proxy"], ["policy", "check", "only/one"], []):
            with self.subTest(command):
                code, out, _ = self.osm(*command, state="x")
                self.assertEqual((code, out), (2, ""))
        self.assertIn(
            "'nonsense' is no command; there are: install upgrade uninstall mesh", self.osm("nonsense", state="x")[2]
        )
        self.assertIn(
            "'tell' is no command of 'proxy'; there are: list services get", self.osm("proxy", "tell", state="x")[2]
        )

    def test_wrong_usage_asks_nobody(self):
        for command in (
            [],
            ["nonsense"],
            ["proxy"],
            ["status", "traffictarget"],
            ["status", "secret", "shop/x"],
            ["status", "tt", "web-api"],
            ["policy", "check", "only/one"],
            ["problems", "-o", "xml"],
            ["certificate", "rotate"],
            ["certificate", "rotate", "--root", "--mesh-dir", "/none"],
            ["deny", "account", "web", "--mesh-dir", "/none"],
            ["verify", "connectivity", "--from-pod", "shop/web-1"],
            ["verify", "ingress"],
            ["vm", "bootstrap"],
            ["graph", "-o", "png"],
        ):
            with self.subTest(command):
                code, out, err = self.osm(*command)
                self.assertEqual((code, out), (2, ""), err)
        for command in (["install", "--set", "osm.none=1"], ["install", "-f", "/none"], ["uninstall", "extra"]):
            with self.subTest(command):
                code, out, err = self.osm(*command, state=False)
                self.assertEqual((code, out), (2, ""), err)
        # Nobody answers the question.
        self.assertEqual(self.osm("uninstall", "-o", "json", state=False)[0], 2)

    # Each option that takes a time.
    TIMED = (
        ["problems", "--timeout"],
        ["proxy", "list", "--timeout"],
        ["graph", "--timeout"],
        ["status", "tt", "shop/web-api", "--timeout"],
        ["certificate", "rotate", "--mesh-dir", "/none", "--wait"],
        ["deny", "account", "shop/web", "--mesh-dir", "/none", "--wait"],
    )
    TIMED_ON_A_CLUSTER = (
        ["install", "--dry-run", "--timeout"],
        ["upgrade", "--timeout"],
        ["uninstall", "--timeout"],
        ["vm", "renew", "--dir", "/none", "--every"],
    )

    def test_every_option_that_takes_a_time_takes_the_same_times(self):
        for state, commands in ((None, self.TIMED), (False, self.TIMED_ON_A_CLUSTER)):
            for command in commands:
                for wrong in ("soon", "30", "5x", "-1s", "1h30", "s", "1 s", "", "1e3s", "infs"):
                    with self.subTest([*command, wrong]):
                        code, out, err = self.osm(*command, wrong, state=state)
                        self.assertEqual((code, out), (2, ""))
                        self.assertIn("write 500ms, 30s, 5m or 1h30m", err)
        for command in self.TIMED:
            for right in ("500ms", "30s", "5m", "1m30s", "0.5s"):
                with self.subTest([*command, right]):
                    self.assertNotEqual(self.osm(*command, right)[0], 2)

    def test_a_time_out_of_its_range_is_told_with_the_range(self):
        for command, wrong, says in (
            (["problems", "--timeout"], "50ms", "between 100ms and 10m"),
            (["problems", "--timeout"], "1h30m", "between 100ms and 10m"),
            (["status", "tt", "shop/x", "--timeout"], "24h1ms", "between 0s and 24h"),
        ):
            code, _, err = self.osm(*command, wrong)
            self.assertEqual(code, 2)
            self.assertIn(says, err)
        self.assertIn("--wait TIME=10m", self.osm("certificate", "rotate", "--help")[1])


class Shells(DaemonTest):
    def completed(self, *words):
        """What bash offers for the last word."""
        script = self.osm("completion", "bash", state=False)[1]
        array = " ".join(f"'{word}'" for word in ("osm", *words))
        done = subprocess.run(
            [
                "bash",
                "-c",
                f'{script}\nCOMP_WORDS=({array}); COMP_CWORD={len(words)}; _osm\nprintf "%s\\n" "${{COMPREPLY[@]}}"',
            ],
            capture_output=True,
            text=True,
            timeout=30,
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.split()

    def test_bash_completes_commands_and_options(self):
        self.assertEqual(self.completed("stat"), ["status"])
        self.assertEqual(
            set(self.completed("proxy", "get", "")) - {"--help", "-h"},
            {"config_dump", "clusters", "endpoints", "listeners", "routes"},
        )
        self.assertEqual(self.completed("namespace", "add", "shop", "--dis"), ["--disable-sidecar-injection"])
        self.assertEqual(self.completed("policy", "check", "shop/web", "--state"), ["--state-dir"])
        self.assertEqual(self.completed("policy", "check", "--mesh-d"), [])  # of another command

    def test_every_shell_knows_every_command(self):
        commands = re.findall(r"(?m)^## osm ([a-z_ -]+)$", CLI_PAGE.read_text())
        self.assertGreater(len(commands), 40)
        for shell in ("bash", "zsh", "fish"):
            script = self.osm("completion", shell, state=False)[1]
            for command in commands:
                self.assertIn(f' {command}"' if shell != "fish" else f" {command}\\'", script)
        self.assertTrue(self.osm("completion", "zsh", state=False)[1].startswith("#compdef osm\n"))
        self.assertEqual(self.osm("completion", "csh", state=False)[0], 2)

    def test_the_version_is_told_in_two_ways(self):
        code, out, err = self.osm("--version", state=False)
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(self.osm("version", "--client", state=False)[1].split()[1:], out.split())

    def test_error_codes_are_those_of_their_page(self):
        listed = json.loads(self.osm("support", "error-info", "-o", "json", state=False)[1])["codes"]
        page = re.findall(r"(?m)^\| `([a-z-]+)` \|", ERROR_PAGE.read_text())
        self.assertEqual([each["code"] for each in listed], page)
        for each in listed:
            self.assertTrue(all(each.values()), each)
            self.assertNotRegex(" ".join(each.values()), r"[`\[\]|]")
        code, out, _ = self.osm("support", "error-info", "dangling-reference", state=False)
        self.assertEqual(code, 0)
        self.assertTrue(out.startswith("dangling-reference\n  meaning: The object refers to"), out)
        code, out, err = self.osm("support", "error-info", "E5003", state=False)
        self.assertEqual((code, out), (2, ""))
        self.assertIn("there are: invalid-syntax, ", err)


class Answers(ShopTest):
    def test_allowed_and_denied_calls_have_codes_of_their_own(self):
        for command in (
            ["policy", "check", "shop/web", "shop/api"],
            ["policy", "explain", "shop/web", "shop/api", "--path", "/books/1"],
        ):
            self.assertEqual(self.osm(*command)[0], 0)
        for command in (
            ["policy", "check", "shop/api", "shop/web"],
            ["policy", "explain", "shop/web", "shop/api", "--path", "/other"],
            ["verify", "ingress", "--from-address", "192.0.2.1", "--to-service", "shop/api", "--to-port", "8080"],
        ):
            with self.subTest(command):
                self.assertEqual(self.osm(*command)[0], 3)

    def test_a_fault_and_an_object_that_is_not_there_are_failures(self):
        self.assertEqual(self.osm("check")[0], 0)
        self.assertEqual(self.osm("policy", "check", "shop/nobody", "shop/api")[0], 1)
        self.assertEqual(self.osm("proxy", "get", "routes", "shop/web-1")[0], 1)
        self.assertEqual(self.osm("status", "tt", "shop/none")[0], 1)
        self.write("bad.yaml", objects.machine("shop", "bad", "not an address", "api"))
        wait_for("the fault", lambda: self.osm("check")[0] == 1)

    def test_what_goes_on_is_not_yet(self):
        self.assertEqual(self.controller.stop(), 0)
        self.write_text("half.yaml", "not: [yaml")
        self.controller = self.start()
        wait_for("the admin API answers", lambda: self.osm("version")[0] == 0)
        self.assertEqual(self.osm("status", "tt", "shop/web-api")[0], 5)
        self.assertEqual(self.osm("status", "tt", "shop/web-api", "--wait", "--timeout", "300ms")[0], 5)
        self.assertEqual(self.osm("policy", "check", "shop/web", "shop/api")[0], 5)


if __name__ == "__main__":
    run()
