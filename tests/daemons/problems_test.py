#!/usr/bin/python3
"""Problems are in logs, metrics and lists, and `osm problems` and `osm check` end with a code for them.

usage: problems_test.py --bin DIRECTORY
"""

import json

from lib.mesh import objects
from lib.mesh.daemon import ShopTest, run
from lib.net.processes import wait_for


class Problems(ShopTest):
    def as_json(self, *command):
        code, out, err = self.osm(*command, "-o", "json")
        self.assertEqual(err, "")
        return code, json.loads(out)

    def test_check_and_verify_name_the_fault_and_its_remedy(self):
        code, out, _ = self.osm("check")
        self.assertEqual(code, 0, out)
        self.assertRegex(out, r"ok +Proxies +0 are connected")
        self.write_text("unknown.yaml", "kind: [unclosed\n")
        wait_for("the problem", lambda: self.osm("check")[0] == 1)
        finding = self.as_json("check")[1]["findings"][0]
        self.assertEqual(
            (finding["verdict"], finding["remedy"]), ("fault", "see `osm support error-info invalid-syntax`")
        )
        code, out, _ = self.osm("verify", "connectivity", "--from-pod", "shop/web-1", "--to-pod", "shop/api-1")
        self.assertEqual(code, 1)
        self.assertRegex(out, r"fault +Proxy shop/web-1 +it is not connected to a controller")
        self.assertEqual(self.osm("verify", "connectivity", "--from-pod", "shop/web-1")[0], 2)
        code, out, _ = self.osm(
            "verify", "ingress", "--from-address", "198.51.100.7", "--to-service", "shop/api", "--to-port", "8080"
        )
        self.assertEqual(code, 3, out)

    def test_problems_and_check_end_with_1_for_errors_and_with_strict_for_warnings(self):
        def codes():
            commands = (
                (name, *flags, *output)
                for name in ("problems", "check")
                for flags in ((), ("--strict",))
                for output in ((), ("-o", "json"), ("-o", "yaml"))
            )
            return {command: self.osm(*command)[0] for command in commands}

        self.assertEqual(set(codes().values()), {0})
        udp = objects.service("shop", "a-udp", "10.9.0.7", 53)
        udp["spec"]["ports"][0].update(name="dns", protocol="UDP")
        self.write("notice.yaml", udp)
        wait_for("the notice", lambda: "notice: " in self.osm("problems")[1])
        self.assertEqual(set(codes().values()), {0})
        orphan = objects.target("shop", "orphan", "api", [("shop", "web")], ("HTTPRouteGroup", "missing", ["read"]))
        self.write("warning.yaml", orphan)
        wait_for("the warning", lambda: "warning: " in self.osm("problems")[1])
        for command, code in codes().items():
            self.assertEqual(code, int("--strict" in command), command)
        self.write_text("error.yaml", "kind: [unclosed\n")
        wait_for("the error", lambda: "error: " in self.osm("problems")[1])
        self.assertEqual(set(codes().values()), {1})
        self.assertIn("--strict", self.osm("problems", "--help")[1])
        self.assertIn("--strict", self.osm("check", "--help")[1])

    def test_accounts_that_nobody_has_and_backends_that_no_client_may_call_are_warnings(self):
        typing_error = objects.books_for("typo", "webb", "api")
        self.write(
            "cafe.yaml",
            typing_error,
            objects.account("shop", "next"),
            objects.machine("shop", "next-1", "10.1.0.9", "next", {"app": "next"}),
            objects.service("shop", "next", "10.9.0.9", 80, 8080),
            objects.split("shop", "halves", "api", api=1, next=1),
        )
        wait_for("both are told", lambda: self.osm("problems")[1].count("dangling-reference") == 2)
        code, answer = self.as_json("problems")
        self.assertEqual(code, 0)
        told = {p["object"]: (p["field"], p["cause"], p["line"]) for p in answer["problems"]}
        field, cause, line = told["TrafficTarget shop/typo"]
        self.assertEqual(field, "spec.sources")
        self.assertIn("nobody has the account shop/webb", cause)
        self.assertIn('"sources"', (self.mesh / "cafe.yaml").read_text().splitlines()[line - 1])
        field, cause, line = told["TrafficSplit shop/halves"]
        self.assertEqual(field, "spec.backends[1].service")
        self.assertIn("add a TrafficTarget from shop/web", cause)
        self.write("declared.yaml", objects.account("shop", "webb"), objects.books_for("more", "web", "next"))
        wait_for("neither is told", lambda: self.osm("problems")[1] == "No problems.\n")

    def test_two_services_with_one_address_are_a_conflict(self):
        self.assertEqual(self.osm("policy", "check-conflicts")[0], 0)
        self.write("twice.yaml", objects.service("shop", "b-twice", "10.9.0.1", 80, 8080))
        wait_for("the conflict", lambda: self.osm("policy", "check-conflicts", "-n", "shop")[0] == 1)
        self.assertIn("conflicting-address", self.osm("policy", "check-conflicts")[1])
        self.assertEqual(self.osm("policy", "check-conflicts", "-n", "other")[1], "No problems.\n")

    def test_a_problem_is_logged_once_counted_listed_and_told_when_it_is_gone(self):
        broken = objects.books_for("broken", "web", "api")
        broken["spec"]["rules"][0]["kind"] = "Nonsense"
        self.write("broken.yaml", broken)
        gone = 'osm_problems{code="invalid-field",severity="error"}'
        wait_for("the metric", lambda: self.controller.metric(gone) == 1)
        [line] = wait_for("the line", lambda: self.controller.log("shop/broken"))
        self.assertEqual(line["level"], "warning")
        self.assertEqual(line["code"], "invalid-field")
        self.assertEqual(line["file"], str(self.mesh / "broken.yaml"))
        self.assertEqual(line["object"], "TrafficTarget shop/broken")
        self.assertEqual(line["field"], "spec.rules[0].kind")

        code, answer = self.as_json("problems")
        self.assertEqual(code, 1)
        [problem] = answer["problems"]
        self.assertEqual(
            (problem["code"], problem["object"], problem["path"], problem["field"]),
            ("invalid-field", "TrafficTarget shop/broken", str(self.mesh / "broken.yaml"), "spec.rules[0].kind"),
        )
        self.assertIn("Nonsense", (self.mesh / "broken.yaml").read_text().splitlines()[problem["line"] - 1])
        self.assertEqual(problem["severity"], "error")
        self.assertIn(f"broken.yaml:{problem['line']}: TrafficTarget shop/broken", self.osm("problems")[1])
        # The rest of the mesh goes on, and the check quotes the problem.
        code, answer = self.as_json("policy", "check", "shop/web", "shop/api")
        self.assertTrue(answer["allowed"])
        self.assertEqual(answer["problems"], [problem])

        # Lines that move are the same problem.
        self.write_text("broken.yaml", "\n\n\n" + json.dumps(broken))
        wait_for("the line to move", lambda: self.as_json("problems")[1]["problems"][0]["line"] != problem["line"])
        (self.mesh / "broken.yaml").unlink()
        wait_for("the problem to go", lambda: self.controller.metric(gone) == 0)
        [resolved] = wait_for("the line", lambda: self.controller.log("resolved: "))
        self.assertIn("shop/broken", resolved["message"])
        self.assertEqual(len(self.controller.log("shop/broken")), 2)
        self.assertEqual(self.osm("problems")[1], "No problems.\n")

    def test_errors_come_before_notices_and_only_they_are_counted_as_errors(self):
        udp = objects.service("shop", "a-udp", "10.9.0.7", 53)
        udp["spec"]["ports"][0].update(name="dns", protocol="UDP")
        self.write("udp.yaml", udp)
        notices = 'osm_problems{code="unused-field",severity="notice"}'
        wait_for("the notice", lambda: self.controller.metric(notices) == 1)
        self.assertEqual([line["level"] for line in self.controller.log("shop/a-udp")], ["info"])
        self.write_text("unknown.yaml", "kind: [unclosed\n")
        wait_for("both", lambda: len(self.as_json("problems")[1]["problems"]) == 2)
        first, second = self.osm("problems")[1].splitlines()
        self.assertTrue(first.startswith("error: "), first)
        self.assertTrue(second.startswith("notice: "), second)

    def test_a_file_that_cannot_be_parsed_keeps_its_last_good_content_and_is_told(self):
        self.write_text("shop.yaml", "kind: [unclosed\n")
        wait_for("the problem", lambda: self.controller.log("shop.yaml:"))
        self.assertIn("invalid-syntax", self.osm("problems")[1])
        self.assertEqual(self.osm("policy", "check", "shop/web", "shop/api")[0], 0)
        self.assertEqual(self.controller.http("/health/ready")[0], 200)


if __name__ == "__main__":
    run()
