#!/usr/bin/python3
"""The admin API and the `osm` command on top of it answer as documented.

usage: admin_test.py --bin DIRECTORY
"""

import json
import os
import re
import stat
import subprocess
import xml.etree.ElementTree

import yaml

from lib import run as run_of_tests
from lib.mesh import objects
from lib.mesh.daemon import DaemonTest, ShopTest, run
from lib.net.processes import wait_for


class WithoutController(DaemonTest):
    def test_a_missing_socket_says_where_it_was_looked_for_and_which_flag_moves_it(self):
        for command in (["proxy", "list"], ["problems"], ["version"], ["certificate", "list"]):
            with self.subTest(command):
                code, _, err = self.osm(*command)
                self.assertEqual(code, 4)
                self.assertIn(str(self.state / "admin.sock"), err)
                self.assertIn("Is osm-controller running", err)
                self.assertIn("--state-dir", err)

    def test_the_state_directory_may_come_from_the_environment(self):
        environment = {**os.environ, "OSM_STATE_DIR": "/from/environment"}
        done = subprocess.run(
            [self.bin / "osm", "problems"], capture_output=True, text=True, timeout=30, env=environment
        )
        self.assertIn("/from/environment/admin.sock", done.stderr)
        for command in (
            ["problems"],
            ["version"],
            ["proxy", "list"],
            ["vm", "bootstrap", "a", "-n", "b", "--controller", "192.0.2.1:1", "--out", self.folder / "out"],
        ):
            done = subprocess.run(
                [self.bin / "osm", *command, "--state-dir", "/from/flag"],
                capture_output=True,
                text=True,
                timeout=30,
                env=environment,
            )
            self.assertIn("/from/flag/admin.sock", done.stderr)

    def test_the_commands_own_version_needs_no_controller(self):
        code, out, _ = self.osm("version", "--client")
        self.assertEqual(code, 0)
        self.assertRegex(
            out,
            r"^client: +\d+\.\d+\.\d+ \(([0-9a-f]+|unknown)\)\n"
            r"built with gRPC .*\n$",
        )


class Admin(ShopTest):
    rng = run_of_tests.seeded()

    def as_json(self, *arguments):
        code, out, err = self.osm(*arguments, "-o", "json")
        return code, json.loads(out) if out else err

    def test_yaml_says_what_json_says_and_keeps_texts(self):
        texts = [
            "yes",
            "No",
            "on",
            "null",
            "~",
            "1",
            "0x1f",
            "1e3",
            "1_000",
            ".5",
            ".inf",
            "NaN",
            "y",
            "2026-01-01",
            "12:30:45",
            "a: b",
            "a #b",
            "# a",
            "- a",
            "-",
            "[a]",
            "{a",
            "*a",
            "&a",
            "!a",
            "%a",
            "@a",
            "`a",
            "=",
            "<<",
            "?",
            "|",
            ">",
            "'a'",
            '"a"',
            " a",
            "a ",
            "a:",
            "two\nlines",
            "tab\tbed",
            "back\\slash",
            "b\u00fccher",
            "\u6f22\U0001f600",
        ]
        texts += [
            "".join(
                map(
                    chr,
                    (
                        self.rng.choice([32, 34, 39, 35, 58, 45, 92, 97, 49, 8232, 228])
                        for _ in range(self.rng.randrange(1, 12))
                    ),
                )
            )
            for _ in range(40)
        ]
        self.write_text(
            "denied.yaml",
            yaml.safe_dump_all(
                [
                    {
                        "apiVersion": "workload.openservicemesh.io/v1alpha1",
                        "kind": "Denylist",
                        "metadata": {"name": f"d{i}", "namespace": "osm-system"},
                        "spec": {"proxyUUIDs": [f"3f0e3b9a-3a55-4c0f-9d0e-{i:012x}"], "reason": text},
                    }
                    for i, text in enumerate(texts)
                ]
            ),
        )

        def denied():
            return self.as_json("deny", "list")[1]["denied"]

        wait_for("the denials", lambda: len(denied()) >= len(texts) - len(self.as_json("problems")[1]["problems"]) > 40)
        for command in (
            ["deny", "list"],
            ["problems"],
            ["graph"],
            ["certificate", "status"],
            ["policy", "check", "shop/web", "shop/api"],
            ["version"],
            ["policy", "explain", "shop/web-1", "api.shop", "--path", "/books/1"],
            ["status", "no-such-kind", "a/b"],
            ["policy", "check", "web"],
            ["proxy", "list", "--no-such-flag"],
        ):
            with self.subTest(command):
                code, by_json = self.as_json(*command)
                yaml_code, out, _ = self.osm(*command, "-o", "yaml")
                self.assertEqual((code, by_json), (yaml_code, yaml.safe_load(out)))

    def test_policy_check_names_the_object_its_file_and_line(self):
        code, answer = self.as_json("policy", "check", "shop/web", "shop/api")
        self.assertEqual(code, 0)
        self.assertTrue(answer["allowed"])
        self.assertEqual(answer["mode"], "SMI")
        [decides] = answer["deciding"]
        self.assertEqual(decides["object"], "TrafficTarget shop/web-api")
        self.assertEqual(decides["path"], str(self.mesh / "shop.yaml"))
        text = (self.mesh / "shop.yaml").read_text().splitlines()
        document = text[decides["line"] - 1 :]
        self.assertEqual(document[0], "{")
        self.assertIn("TrafficTarget", document[2])
        self.assertEqual(decides["routes"], ["GET /books.*"])

        code, out, _ = self.osm("policy", "check", "shop/api", "shop/web")
        self.assertEqual(code, 3)
        self.assertTrue(out.startswith("DENIED"), out)

    def test_accounts_that_are_not_known_or_not_accounts_are_told_apart(self):
        code, _, err = self.osm("policy", "check", "shop/nobody", "shop/api")
        self.assertEqual(code, 1)
        self.assertIn("shop/nobody", err)
        for bad in ("web", "shop/", "/web", "a/b/c"):
            status, answer = self.controller.admin(
                f"/v1/policy/check?source={bad.replace('/', '%2F')}&destination=shop%2Fapi"
            )
            self.assertEqual(status, 400, answer)
            self.assertIn("<namespace>/<account>", answer["error"]["message"])
        self.assertEqual(self.controller.admin("/v1/policy/check")[0], 400)

    def test_policy_explain_tells_each_decision_and_the_field_that_denies(self):
        code, answer = self.as_json("policy", "explain", "shop/web-1", "api.shop", "--path", "/books/1")
        self.assertEqual((code, answer["verdict"], answer["source"]), (0, "allowed", "shop/web"))
        [way] = answer["ways"]
        self.assertEqual(
            (way["service"], way["port"], way["account"], way["addresses"]),
            ("shop/api", 8080, "shop/api", ["10.1.0.2"]),
        )
        self.assertEqual(way["not_connected"], ["10.1.0.2"])
        self.assertEqual(way["answer"], "policy lets the call reach 10.1.0.2:8080, whose proxy is not connected")
        decides = way["steps"][-1]
        self.assertEqual(
            (decides["object"], decides["field"], decides["path"]),
            ("TrafficTarget shop/web-api", "spec.rules[0]", str(self.mesh / "shop.yaml")),
        )
        self.assertIn(
            '"rules"',
            "".join((self.mesh / "shop.yaml").read_text().splitlines()[decides["line"] - 2 : decides["line"]]),
        )

        code, out, _ = self.osm("policy", "explain", "shop/web", "shop/api", "--method", "PUT")
        self.assertEqual(code, 3)
        self.assertTrue(out.startswith("DENIED: 404 from the sidecar (SMI mode)\n"), out)
        last = out.splitlines()[-1]
        self.assertRegex(last, r"^server +denies +TrafficTarget shop/web-api +it allows shop/web GET ")
        self.assertIn("shop.yaml:", last)
        code, out, _ = self.osm("policy", "explain", "shop/web", "shop/gone", "--port", "80")
        self.assertEqual(code, 3)
        self.assertIn("Service shop/gone is not in the mesh", out)

    def test_a_wrong_question_about_a_call_is_told_apart_from_a_denied_call(self):
        for wrong in (
            ["web", "shop/api"],
            ["shop/web", "a/b/c"],
            ["shop/web", "shop/api", "--port", "0"],
            ["shop/web", "shop/api", "--header", "x"],
            ["shop/web", "shop/api", "--path", "x"],
            ["shop/web", "account:shop/api"],
            ["shop/web"],
        ):
            with self.subTest(wrong):
                code, out, err = self.osm("policy", "explain", *wrong)
                self.assertEqual((code, out), (2, ""))
                self.assertNotEqual(err, "")
        code, _, err = self.osm("policy", "explain", "shop/nobody", "shop/api")
        self.assertEqual(code, 1)
        self.assertIn("shop/nobody is not in the mesh", err)

    def test_a_service_is_shown_with_its_endpoints_their_provider_and_its_callers(self):
        self.write(
            "ingress.yaml",
            objects.ingress_backend(
                "shop", "in", {("api", 8080): {"protocol": "http"}}, ("IPRange", "198.51.100.0/24")
            ),
        )
        wait_for("it is read", lambda: self.as_json("service", "get", "shop/api")[1]["ingress"])
        endpoint = {"address": "10.1.0.2", "port": 8080, "identity": "shop/api", "weight": None, "provider": "vm"}
        caller = {
            "object": "IngressBackend shop/in",
            "target_port": 8080,
            "encryption": "none",
            "networks": ["198.51.100.0/24"],
            "principals": [],
        }
        code, answer = self.as_json("service", "get", "shop/api")
        self.assertEqual((code, answer["service"], answer["identities"]), (0, "shop/api", ["shop/api"]))
        self.assertEqual([{name: e[name] for name in endpoint} for e in answer["endpoints"]], [endpoint])
        self.assertEqual(answer["ingress"], [caller])
        out = self.osm("service", "get", "shop/api")[1]
        self.assertRegex(out, r"(?m)^10\.1\.0\.2 +8080 .* vm$")
        self.assertRegex(out, r"(?m)^IngressBackend shop/in +8080 +none +198\.51\.100\.0/24 +-$")
        for name, status, reason in (("shop/gone", 1, "not-found"), ("api", 2, "invalid-argument")):
            code, _, err = self.osm("service", "get", name)
            self.assertEqual((code, name in err, reason in err), (status, True, True), err)

    def test_accounts_and_policies_are_shown(self):
        code, answer = self.as_json("identity", "get", "shop/api")
        self.assertEqual((code, answer["inbound"], answer["outbound"]), (0, ["shop/web"], []))
        [port] = answer["services"]
        self.assertEqual((port["service"], port["port"], port["target_port"]), ("shop/api", 80, 8080))
        out = self.osm("identity", "get", "shop/web")[1]
        self.assertEqual(out.splitlines()[1:], ["Called by: -", "Calls:     shop/api", "It runs no Service."])
        code, answer = self.as_json("policy", "list")
        [policy] = answer["policies"]
        self.assertEqual(
            (code, policy["object"], policy["source"], policy["destination_services"], policy["routes"]),
            (0, "TrafficTarget shop/web-api", "shop/web", ["shop/api"], ["GET /books.*"]),
        )
        self.assertTrue(policy["path"].endswith("shop.yaml"), policy)
        self.assertRegex(self.osm("policy", "list")[1], r"(?m)^TrafficTarget shop/web-api +shop/web +shop/api ")
        gone = ("HTTPRouteGroup", "gone", [])
        self.write("nothing.yaml", objects.target("shop", "nothing", "web", [("shop", "api")], gone))
        wait_for("it is read", lambda: len(self.as_json("policy", "list")[1]["policies"]) == 2)
        self.assertRegex(self.osm("policy", "list")[1], r"(?m)^TrafficTarget shop/nothing .* opens nothing$")

    def test_a_proxy_that_has_not_come_is_expected_no_participant_and_has_services(self):
        self.assertEqual(self.osm("proxy", "list", "--expected")[1], "No proxy is expected.\n")
        self.assertEqual(self.bootstrap("api-1", self.folder / "api-1")[0], 0)
        [expected] = self.as_json("proxy", "list", "--expected")[1]["expected"]
        uuid = expected["uuid"]
        self.assertEqual((expected["namespace"], expected["claimed"]), ("shop", False))
        self.assertRegex(self.osm("proxy", "list", "--expected")[1], rf"(?m)^shop +{uuid} .* no$")
        self.assertEqual(self.as_json("proxy", "list", "--participants")[1], {"participants": []})
        self.assertEqual(self.osm("proxy", "list", "--participants")[1], "No proxy is a participant.\n")
        self.assertEqual(self.osm("proxy", "list", "--participants", "--expected")[0], 2)
        code, answer = self.as_json("proxy", "services", f"shop/{uuid}")
        self.assertEqual((code, [s["service"] for s in answer["services"]]), (0, ["shop/api"]))
        self.assertRegex(self.osm("proxy", "services", f"shop/{uuid}")[1], r"(?m)^shop/api +http +80 +8080 +http$")
        for proxy, code in ((f"other/{uuid}", 1), ("shop/api-1", 2), (uuid, 2)):
            self.assertEqual(self.osm("proxy", "services", proxy)[0], code, proxy)

    def test_the_graph_has_each_permission_with_its_object_and_encryption(self):
        self.write(
            "egress.yaml",
            objects.egress("shop", "out", ["web"], {443: "https"}, ["example.com"]),
            objects.ingress_backend(
                "shop", "in", {("api", 8080): {"protocol": "http"}}, ("IPRange", "198.51.100.0/24")
            ),
        )
        wait_for("the policies are read", lambda: len(self.as_json("graph")[1]["edges"]) == 3)
        edges = {
            (e["source"], e["destination"]): (e["encryption"], e["object"]) for e in self.as_json("graph")[1]["edges"]
        }
        self.assertEqual(
            edges,
            {
                ("shop/web", "shop/api"): ("mTLS", "TrafficTarget shop/web-api"),
                ("shop/web", "example.com"): ("the application's TLS", "Egress shop/out"),
                ("198.51.100.0/24", "Service shop/api"): ("none", "IngressBackend shop/in"),
            },
        )
        self.write(
            "nothing.yaml",
            objects.target("shop", "nothing", "web", [("shop", "api")], ("HTTPRouteGroup", "missing", ["read"])),
        )
        wait_for("it is read", lambda: "shop/nothing" in self.osm("problems")[1])
        code, out, _ = self.osm("graph")
        self.assertEqual((code, len(out.splitlines())), (0, 4), out)
        self.assertIn('"shop/web" -> "shop/api"', self.osm("graph", "-o", "dot")[1])
        self.assertRegex(self.osm("graph", "-o", "mermaid")[1], r'n\d\["shop/web"\]')
        picture = xml.etree.ElementTree.fromstring(self.osm("graph", "-o", "svg")[1])
        self.assertEqual(len(picture.findall("{http://www.w3.org/2000/svg}line")), 3)

    def test_commands_that_write_files_tell_programs_which(self):
        out = self.folder / "web-1"
        code, told = self.as_json(
            "vm", "bootstrap", "web-1", "-n", "shop", "--controller", "192.0.2.1:15128", "--out", out
        )
        self.assertEqual((code, told["directory"]), (0, str(out)))
        self.assertEqual(set(told["files"]), {file.name for file in out.iterdir()})
        self.assertTrue(told["common_name"].startswith(told["uuid"]), told)
        report = self.folder / "report"
        code, told = self.as_json("support", "bug-report", "--out", report)
        self.assertEqual((code, told["directory"]), (0, str(report)))
        self.assertEqual(set(told["files"]), {file.name for file in report.iterdir()})

    def test_a_directory_of_another_machine_or_of_the_system_is_not_overwritten(self):
        def bootstrap(machine, out):
            return self.osm("vm", "bootstrap", machine, "-n", "shop", "--controller", "192.0.2.1:15128", "--out", out)

        out, system = self.folder / "machine", self.folder / "system"
        self.assertEqual(bootstrap("web-1", out)[0], 0)
        self.assertEqual(bootstrap("web-1", out)[0], 0, "a machine's own files are replaced")
        before = (out / "sds_key.pem").read_text()
        code, _, err = bootstrap("api-1", out)
        self.assertEqual((code, before), (1, (out / "sds_key.pem").read_text()))
        self.assertIn(f"{out}: holds the files of shop/web-1, not of shop/api-1", err)
        system.mkdir()
        (system / "hosts").write_text("127.0.0.1 localhost\n")
        code, _, err = bootstrap("web-1", system)
        self.assertEqual((code, [file.name for file in system.iterdir()]), (1, ["hosts"]))
        self.assertIn(f"{system}/hosts: is there", err)
        self.assertIn("--out", err)

    def test_the_printed_commands_replace_the_names_in_hosts_and_nothing_else(self):
        hosts, out = self.folder / "etc-hosts", self.folder / "named"
        hosts.write_text("192.0.2.9 own\n")
        for _ in range(2):
            code, told, _ = self.osm(
                "vm", "bootstrap", "web-1", "-n", "shop", "--controller", "192.0.2.1:15128", "--out", out
            )
            self.assertEqual(code, 0)
            commands = [
                line.replace("/etc/hosts", str(hosts))
                for line in told.splitlines()
                if line.strip().startswith(("sed ", "cat "))
            ]
            self.assertEqual(len(commands), 2, told)
            subprocess.run("\n".join(commands), shell=True, check=True)
            self.assertEqual(hosts.read_text(), "192.0.2.9 own\n" + (out / "hosts").read_text())
        subprocess.run(commands[0], shell=True, check=True)  # as `osm vm leave` says
        self.assertEqual(hosts.read_text(), "192.0.2.9 own\n")

    def test_vm_bootstrap_writes_files_that_only_their_owner_reads(self):
        out = self.folder / "machine"
        code, text, err = self.bootstrap("api-1", out)
        self.assertEqual((code, err), (0, ""))
        self.assertIn("intercept.sh", text)
        for path in out.iterdir():
            mode = stat.S_IMODE(path.stat().st_mode)
            content = path.read_text()
            if "PRIVATE KEY" in content:
                self.assertEqual(mode, 0o600, path)
            self.assertEqual(mode & 0o022, 0, path)
        files = {path.name for path in out.iterdir()}
        self.assertLessEqual({"bootstrap.yaml", "hosts", "intercept.sh"}, files)
        self.assertIn("10.9.0.1", (out / "hosts").read_text())

        answer = self.controller.admin("/v1/proxies")[1]
        [expected] = answer["expected"]
        self.assertFalse(expected["claimed"])
        self.assertEqual(expected["common_name"], f"{expected['uuid']}.api.shop")
        self.assertEqual(answer["proxies"], [])
        # Doing it again gives a new key, and one expected proxy still.
        key = next(p for p in out.iterdir() if "PRIVATE KEY" in p.read_text())
        before = key.read_text()
        self.assertEqual(self.bootstrap("api-1", out)[0], 0)
        self.assertNotEqual(key.read_text(), before)
        self.assertEqual(len(self.controller.admin("/v1/proxies")[1]["expected"]), 1)
        # The controller never has a machine's key.
        held = self.controller.admin("/v1/certificates")[1]["certificates"]
        self.assertEqual([c["common_name"] for c in held], ["osm-controller.osm-system"])

    def test_the_owner_is_who_envoy_runs_as_and_whose_traffic_is_left_alone(self):
        def bootstrap(owner):
            return self.bootstrap("api-1", out, "--owner", str(owner))

        out, owner = self.folder / "machine", os.getuid() or 2000
        self.assertEqual(bootstrap(owner)[0], 0)
        self.assertIn(f"setpriv --reuid={owner} ", (out / "bootstrap.yaml").read_text())
        script = (out / "intercept.sh").read_text()
        self.assertIn(f"--uid-owner {owner} ", script)
        self.assertNotIn("--uid-owner 1500 ", script)
        self.assertEqual((out / "sds_key.pem").stat().st_uid, owner)
        self.assertEqual((out / "intercept.sh").stat().st_uid, os.getuid())
        code, _, err = bootstrap(0)  # interception could not tell root's traffic from Envoy's
        self.assertEqual(code, 2)
        self.assertIn("root", err)

    def test_what_bypasses_a_machines_proxy_is_in_its_script(self):
        machine = objects.machine("shop", "odd-1", "10.1.0.9", "api")
        excluded = machine["metadata"]["annotations"] = {
            "openservicemesh.io/inbound-port-exclusion-list": "9100, 9101",
            "openservicemesh.io/inbound-ip-range-exclusion-list": "203.0.113.0/24",
            "openservicemesh.io/outbound-ip-range-exclusion-list": "198.51.100.0/24",
            "openservicemesh.io/network-interface-exclusion-list": "eth7",
        }
        config = objects.mesh_config()
        config["spec"]["traffic"] |= {
            "outboundPortExclusionList": [6379],
            "inboundPortExclusionList": [2222],
            "inboundIPRangeExclusionList": ["192.0.2.0/24"],
        }
        self.write("odd.yaml", machine, config)
        self.addCleanup((self.mesh / "odd.yaml").unlink)
        out = self.folder / "odd"
        wait_for("the machine is known", lambda: self.bootstrap("odd-1", out)[0] == 0)

        def script():
            text = (out / "intercept.sh").read_text()
            return text if "6379" in text else self.bootstrap("odd-1", out) and None

        text = wait_for("the MeshConfig is read", script)
        (inbound,) = re.findall(
            r"-A OSM_PROXY_INBOUND -p tcp -m multiport --dports (\S+) -j RETURN", text.split("*filter")[0]
        )
        self.assertLessEqual({"22", "2222", "9100", "9101", "15010"}, set(inbound.split(",")))
        for line in (
            "-A OSM_PROXY_OUTBOUND -p tcp -m multiport --dports 6379 -j RETURN",
            "-A OSM_PROXY_OUTBOUND -d 198.51.100.0/24 -p tcp -j RETURN",
            "-A OSM_PROXY_INBOUND -s 203.0.113.0/24 -p tcp -j RETURN",
            "-A OSM_PROXY_INBOUND -s 192.0.2.0/24 -p tcp -j RETURN",
            "-A OSM_PROXY_OUTBOUND -o eth7 -j RETURN",
            "-A OSM_PROXY_INBOUND -i eth7 -j RETURN",
        ):
            self.assertIn(line, text)

        excluded["openservicemesh.io/inbound-port-exclusion-list"] = "ssh"
        self.write("odd.yaml", machine, config)
        error = wait_for("the fault is told", lambda: self.bootstrap("odd-1", out)[2])
        self.assertIn(
            "VirtualMachine shop/odd-1: "
            "metadata.annotations[openservicemesh.io/inbound-port-exclusion-list]: "
            "'ssh' is not a port",
            error,
        )

    def test_vm_bootstrap_of_an_unknown_or_refused_machine_says_why(self):
        def bootstrap(name):
            return self.bootstrap(name, self.folder / "x")

        code, _, err = bootstrap("nobody")
        self.assertEqual(code, 1)
        self.assertIn("no VirtualMachine shop/nobody", err)
        self.assertFalse((self.folder / "x").exists())
        self.write("bad.yaml", objects.machine("shop", "bad", "not an address", "api"))
        wait_for("the problem", lambda: self.controller.log("shop/bad"))
        code, _, err = bootstrap("bad")
        self.assertIn("spec.address", err)
        self.assertIn("bad.yaml", err)

    def test_bootstrap_requests_that_lack_something_are_refused(self):
        for body in (
            None,
            [],
            {},
            {"name": "api-1", "namespace": "shop", "controller": 5},
            {"name": "api-1", "namespace": "shop", "controller": "192.0.2.1:1", "directory": "/d"},
            self.bootstrap_request(controller="x"),
            self.bootstrap_request(directory="relative"),
        ):
            with self.subTest(body):
                status, answer = self.controller.admin("/v1/vm/bootstrap", "POST", body)
                self.assertEqual(status, 400, answer)
                self.assertNotIn("PRIVATE", json.dumps(answer))

    def subject(self, machine):
        return self.controller.admin(f"/v1/vm/subject?name={machine}&namespace=shop")[1]

    def request_for(self, subject, key="ec -pkeyopt ec_paramgen_curve:P-256"):
        """A PKCS#10 request for that subject, as any machine could make it."""
        return subprocess.run(
            [
                "openssl",
                "req",
                "-new",
                "-newkey",
                *key.split(),
                "-nodes",
                "-keyout",
                "/dev/null",
                "-subj",
                f"/CN={subject['common_name']}",
                "-addext",
                f"subjectAltName=URI:{subject['spiffe_id']}",
            ],
            capture_output=True,
            text=True,
            check=True,
            timeout=30,
        ).stdout

    def bootstrap_request(self, **changed):
        return {
            "name": "api-1",
            "namespace": "shop",
            "controller": "192.0.2.1:1",
            "directory": "/d",
            "request": self.request_for(self.subject("api-1")),
        } | changed

    def test_no_key_crosses_the_socket_and_the_certificate_is_over_the_machines_own(self):
        request = self.bootstrap_request()
        status, answer = self.controller.admin("/v1/vm/bootstrap", "POST", request)
        self.assertEqual(status, 200, answer)
        self.assertNotIn("PRIVATE", json.dumps(answer))
        files = {f["name"]: f["content"] for f in answer["files"]}
        self.assertNotIn("sds_key.pem", files)

        def public_key(command, pem):
            return subprocess.run(
                ["openssl", command, "-noout", "-pubkey"],
                input=pem,
                text=True,
                capture_output=True,
                check=True,
                timeout=30,
            ).stdout

        self.assertEqual(public_key("x509", files["sds_cert.pem"]), public_key("req", request["request"]))

    def test_a_request_for_another_machines_identity_is_refused_and_nobody_is_expected(self):
        mine, others = self.subject("api-1"), self.subject("web-1")
        self.assertNotEqual(mine["common_name"], others["common_name"])
        subject = "its subject is not exactly that common name"
        names = f'its subjectAltName is not exactly URI "{mine["spiffe_id"]}"'
        for stolen, why in (
            (others, subject),
            (mine | {"spiffe_id": others["spiffe_id"]}, names),
            (mine | {"common_name": others["common_name"]}, subject),
            (mine | {"spiffe_id": "spiffe://cluster.local/ns/shop/sa/api"}, names),
        ):
            with self.subTest(stolen):
                status, answer = self.controller.admin(
                    "/v1/vm/bootstrap", "POST", self.bootstrap_request(request=self.request_for(stolen))
                )
                self.assertEqual(status, 400, answer)
                message = answer["error"]["message"]
                self.assertIn(f'certificate request for common name "{mine["common_name"]}"', message)
                self.assertIn(why, message)
        status, answer = self.controller.admin(
            "/v1/vm/bootstrap", "POST", self.bootstrap_request(request=self.request_for(mine, "rsa:1024"))
        )
        self.assertEqual(status, 400, answer)
        self.assertIn("its key is not taken", answer["error"]["message"])
        self.assertEqual(self.controller.admin("/v1/proxies")[1]["expected"], [])

    def test_a_machines_key_is_of_the_kind_that_the_mesh_asks_for(self):
        for algorithm, expected in (("RSA", "odulus"), ("Ed25519", "ED25519"), ("ECDSA", "P-256")):
            with self.subTest(algorithm):
                self.write("config.yaml", objects.mesh_config(certificate={"keyAlgorithm": algorithm}))
                wait_for("the setting", lambda: self.subject("api-1")["key_algorithm"] == algorithm)
                out = self.folder / algorithm
                self.assertEqual(self.bootstrap("api-1", out)[0], 0)
                for command, text, file in (("pkey", "-text_pub", "sds_key.pem"), ("x509", "-text", "sds_cert.pem")):
                    told = subprocess.run(
                        ["openssl", command, "-noout", text, "-in", out / file],
                        capture_output=True,
                        text=True,
                        check=True,
                        timeout=30,
                    )
                    self.assertIn(expected, told.stdout)

    def test_the_controllers_certificate_is_listed_and_rotated_without_its_key(self):
        name = "osm-controller.osm-system"
        code, answer = self.as_json("certificate", "list")
        [certificate] = answer["certificates"]
        self.assertEqual(certificate["common_name"], name)
        self.assertEqual(certificate["spiffe_id"], "spiffe://cluster.local/osm/controller")
        code, rotated = self.as_json("certificate", "rotate", name)
        self.assertEqual(code, 0)
        self.assertNotEqual(rotated["fingerprint"], certificate["fingerprint"])
        self.assertEqual(self.as_json("certificate", "list")[1]["certificates"], [rotated])
        self.assertNotIn("PRIVATE", json.dumps(rotated))
        code, _, err = self.osm("certificate", "rotate", "nobody")
        self.assertEqual(code, 1)
        self.assertIn("nobody", err)

    def test_without_authentication_no_page_shows_data_of_the_mesh(self):
        for path in ("/v1/proxies", "/v1/certificates", "/v1/vm/bootstrap", "/"):
            self.assertEqual(self.controller.http(path)[0], 404)
        status, body = self.controller.http("/version")
        self.assertEqual(status, 200)
        version = json.loads(body)
        self.assertEqual(
            set(version), {"version", "commit", "envoy_api", "replica", "generation", "mesh_hash", "stale", "admits"}
        )
        self.assertFalse(version["stale"])  # a directory is never out of reach
        self.assertTrue(version["admits"])
        self.assertGreater(version["generation"], 0)
        self.assertEqual(self.controller.http("/metrics", "POST")[0], 405)
        metrics = self.controller.http("/metrics")[1]
        self.assertIn(f'osm_mesh_info{{hash="{version["mesh_hash"]}"}} 1', metrics)
        for secret in ("web-1", "10.1.0.2", "shop"):
            self.assertNotIn(secret, metrics)

    def test_every_metric_has_its_help_and_the_exposition_is_well_formed(self):
        text = self.controller.http("/metrics")[1]
        kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M))
        self.assertIn("osm_version_info", kinds)
        helps = set(re.findall(r"^# HELP (\S+) \S", text, re.M))
        self.assertEqual(set(kinds) - helps, set())
        for line in text.splitlines():
            if not line.startswith("#"):
                self.assertRegex(line, r'^[a-z_]+(\{[a-z_]+="[^"]*"(,[a-z_]+="[^"]*")*\})? \S+$')
        self.assertNotIn("osm_metrics_dropped_total", kinds)

    def test_a_machine_that_has_not_come_yet_is_told_of(self):
        self.bootstrap("api-1", self.folder / "machine")
        self.assertRegex(
            self.osm("proxy", "list")[1], r"^No proxy is connected\.\nExpected, not connected yet: \S+\.api\.shop\n$"
        )

    def test_no_proxy_is_known_before_one_connects(self):
        self.assertEqual(self.osm("proxy", "list")[:2], (0, "No proxy is connected.\n"))
        code, _, err = self.osm("proxy", "get", "config_dump", "shop/api-1")
        self.assertEqual(code, 1)
        self.assertIn("shop/api-1", err)


class ClusterDomain(ShopTest):
    FLAGS = ("--cluster-domain", "example.internal")

    def test_names_of_services_end_with_it_on_machines_in_objects_and_in_explanations(self):
        full = "api.shop.svc.example.internal"
        self.assertEqual(self.bootstrap("api-1", self.folder / "machine")[0], 0)
        self.assertIn(f"10.9.0.1 api api.shop api.shop.svc {full}\n", (self.folder / "machine/hosts").read_text())
        asked = "policy", "explain", "shop/web", "shop/api", "--path", "/books", "--host"
        self.assertEqual(self.osm(*asked, full)[0], 0)
        self.assertEqual(self.osm(*asked, "api.shop.svc.cluster.local")[0], 3)
        self.write(
            "limits.yaml",
            objects.upstream_setting("shop", "here", full),
            objects.upstream_setting("shop", "there", "api.shop.svc.example.com"),
        )
        wait_for("the setting of another host is told", lambda: "shop/there" in self.osm("problems")[1])
        self.assertNotIn("shop/here", self.osm("problems")[1])


if __name__ == "__main__":
    run()
