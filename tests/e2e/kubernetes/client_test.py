#!/usr/bin/python3
"""The API client, informers and store keep their contracts against a real API server."""

import base64
import json
import os
import pathlib
import queue
import shutil
import subprocess
import sys
import threading
import unittest

from lib.kube import kubeobjects as k8s
from lib.kube.api import write_kubeconfig
from lib.kube.cluster import API_PORT, Cluster, kubectl_program
from lib.kube.line import Line
from lib.mesh import meshcase
from lib.mesh.rig import Rig
from lib.net.processes import NotYet, command_with_parent_death, wait_for

CRDS = pathlib.Path(__file__).resolve().parents[3] / "charts/osm/crds"
NOTICED = 10  # seconds: the server is asked again after 4 at the latest, and this machine is busy
MONITORED = {"openservicemesh.io/monitored-by": "osm"}


class Follower:
    """kubernetes_follow: what a store sees."""

    def __init__(self, cluster, kubeconfig, ns="osm-system"):
        program = pathlib.Path(meshcase._programs.bin) / "kubernetes_follow"
        self.lines, self.changed = queue.Queue(), []
        self.process = subprocess.Popen(
            command_with_parent_death(cluster.namespace.command(program, kubeconfig, ns)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            verb, _, rest = line.rstrip("\n").partition(" ")
            if verb == "changed":
                self.changed.append(rest)
            else:
                self.lines.put((verb, rest))

    def ask(self, question, timeout=30):
        self.process.stdin.write(question + "\n")
        self.process.stdin.flush()
        verb, answer = self.lines.get(timeout=timeout)
        if verb != question.split()[0]:
            raise AssertionError(f"{question}: {verb} {answer}")
        return answer

    def list(self, kind):
        return self.ask(f"list {kind}").split()[1:]

    def get(self, kind, name):
        answer = self.ask(f"get {kind} {name}")
        return None if answer == "none" else json.loads(answer)

    def wait_until_synced(self, timeout=20):
        def synced():
            if self.ask("synced") != "true":
                raise NotYet(self.ask("problems"))
            return True

        wait_for("the store has synced", synced, timeout, interval=0.1)

    def close(self):
        """Its log."""
        self.process.stdin.close()
        log = self.process.stderr.read()
        self.process.wait(20)
        for pipe in (self.process.stdout, self.process.stderr):
            pipe.close()
        return log


class MintingPlugin:
    """An exec credential plugin that asks the API server for tokens (TokenRequest)."""

    SCRIPT = """#!{python}
import datetime, json, os, subprocess
version = json.loads(os.environ["KUBERNETES_EXEC_INFO"])["apiVersion"]
settings = json.load(open("{directory}/settings"))
token = subprocess.run(
    ["{kubectl}", "--kubeconfig", "{admin}", "create", "token", "{account}", "-n", "{ns}",
     "--bound-object-kind", "Secret", "--bound-object-name", settings["ticket"]],
    check=True, capture_output=True, text=True).stdout.strip()
with open("{directory}/minted", "a") as minted:
    print(json.dumps({{"ticket": settings["ticket"], "token": token}}), file=minted)
now = datetime.datetime.now(datetime.timezone.utc)
expires = now + datetime.timedelta(seconds=settings["seconds"])
print(json.dumps({{"apiVersion": version, "kind": "ExecCredential", "status": {{
    "token": token, "expirationTimestamp": expires.strftime("%Y-%m-%dT%H:%M:%SZ")}}}}))
"""

    def __init__(self, cluster, directory, ns, account):
        self.directory = directory
        directory.mkdir()
        script = directory / "mint"
        script.write_text(
            self.SCRIPT.format(
                python=sys.executable,
                directory=directory,
                admin=cluster.kubeconfig,
                ns=ns,
                kubectl=shutil.which(kubectl_program()),
                account=account,
            )
        )
        script.chmod(0o700)
        self.kubeconfig = directory / "config"
        self.kubeconfig.write_text(
            json.dumps(
                {
                    "current-context": "c",
                    "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
                    "clusters": [
                        {
                            "name": "k",
                            "cluster": {"server": cluster.server, "certificate-authority": str(cluster.pki.ca)},
                        }
                    ],
                    "users": [
                        {
                            "name": "u",
                            "user": {
                                "exec": {
                                    "apiVersion": "client.authentication.k8s.io/v1",
                                    "command": "./mint",
                                    "interactiveMode": "Never",
                                    "env": [{"name": "HOME", "value": str(directory)}],
                                }
                            },
                        }
                    ],
                }
            )
        )

    def say(self, **settings):
        (self.directory / "new").write_text(json.dumps(settings))
        os.replace(self.directory / "new", self.directory / "settings")

    def minted(self, what="ticket"):
        """The ticket, text or id of every token so far, in order."""
        tokens = [json.loads(line) for line in (self.directory / "minted").read_text().splitlines()]
        if what != "id":
            return [token[what] for token in tokens]
        claims = [token["token"].split(".")[1] for token in tokens]
        return ["JTI=" + json.loads(base64.urlsafe_b64decode(c + "=" * (-len(c) % 4)))["jti"] for c in claims]


class ClientTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.rig = Rig(meshcase._programs)
        cls.addClassCleanup(cls.rig.close)
        cls.cluster = Cluster(cls.rig)
        cls.addClassCleanup(cls.cluster.stop)
        cls.cluster.start()
        cls.api = cls.cluster.api

    def stop_api_server(self):
        """Its test starts it again; if the test does not come so far, its cleanup does."""
        self.addCleanup(lambda: self.cluster.api_server_runs() or self.cluster.start_api_server())
        self.cluster.stop_api_server()

    def follow(self, kubeconfig=None):
        follower = Follower(self.cluster, kubeconfig or self.cluster.kubeconfig)
        self.addCleanup(lambda: follower.process.poll() is None and follower.close())
        return follower

    def run_live(self, suite):
        """Runs the test suite "`suite`, live". doctest takes a comma for the end of a filter."""
        nobody = self.cluster.kubeconfig_of("nobody", self.cluster.pki.user("nobody"))
        ran = subprocess.run(
            self.cluster.namespace.command(
                "env",
                f"KUBERNETES_LIVE_CONFIG={self.cluster.kubeconfig}",
                f"KUBERNETES_LIVE_NOBODY={nobody}",
                pathlib.Path(meshcase._programs.bin) / "kubernetes_live_test",
                f"-ts={suite}??live",
            ),
            capture_output=True,
            text=True,
            timeout=240,
        )
        self.assertEqual(0, ran.returncode, ran.stdout + ran.stderr)
        self.assertRegex(ran.stdout, r"test cases: +[1-9]", "no test has this name")

    def test_every_verb_as_the_server_answers_it(self):
        self.run_live("kubernetes::Api")

    def test_lists_again_and_again_cost_no_memory(self):
        self.run_live("kubernetes::Informer")

    def test_a_version_from_before_a_restart_is_gone(self):
        self.api.apply(k8s.namespace("restart"))
        self.stop_api_server()
        self.cluster.start_api_server()
        self.run_live("kubernetes::Api after a restart")

    def test_the_store_holds_what_the_mesh_reads(self):
        self.api.apply(k8s.namespace("shop", **MONITORED), k8s.namespace("other"), k8s.service("shop", "web"))
        follower = self.follow()
        follower.wait_until_synced()
        namespaces = follower.list("Namespace")
        self.assertIn("/shop", namespaces)
        self.assertNotIn("/other", namespaces)
        self.assertNotIn("managedFields", follower.get("Service", "shop/web")["metadata"])
        self.api.apply(k8s.service("shop", "web2"))
        wait_for("the store has the new service", lambda: "shop/web2" in follower.list("Service"))
        self.api.delete("Service", "shop", "web2")
        wait_for("the store has lost it", lambda: "shop/web2" not in follower.list("Service"))
        self.api.apply(k8s.service("shop", "web3"))
        self.assertEqual("true", follower.ask("catch_up Service shop/web3 10000"))
        self.assertIn("shop/web3", follower.list("Service"))
        # One that leaves the selection is gone, as one that is deleted.
        self.api.patch("Namespace", None, "shop", {"metadata": {"labels": {"openservicemesh.io/monitored-by": None}}})
        wait_for("the namespace has left", lambda: "/shop" not in follower.list("Namespace"))

    def test_kinds_are_found_when_their_crds_are_installed_and_given_up_with_them(self):
        self.api.apply(k8s.namespace("crds"))
        follower = self.follow()
        follower.wait_until_synced()
        self.assertIn("install the CustomResourceDefinition tcproutes.specs.smi-spec.io", follower.ask("problems"))
        self.cluster.kubectl("apply", "--server-side", "-f", CRDS)
        self.cluster.kubectl("wait", "--for=condition=Established", "crd", "--all")
        self.api.apply(
            {
                "apiVersion": "specs.smi-spec.io/v1alpha4",
                "kind": "TCPRoute",
                "metadata": {"name": "r", "namespace": "crds"},
                "spec": {"matches": {"ports": [80]}},
            }
        )
        wait_for("the route is found", lambda: follower.list("TCPRoute") == ["crds/r"], 70)
        wait_for("nothing is missing", lambda: follower.ask("problems") == "0", 70)
        # The server forgets the objects first, and then the resource.
        self.cluster.kubectl("delete", "-f", CRDS)
        wait_for("the route is gone", lambda: follower.list("TCPRoute") == [], 30)
        self.assertEqual("true", follower.ask("synced"))

    def test_a_server_that_is_away_takes_nothing_and_its_changes_are_caught_up(self):
        self.api.apply(
            k8s.namespace("away", **MONITORED),
            k8s.service("away", "kept"),
            k8s.service("away", "deleted"),
            k8s.service("away", "changed"),
        )
        follower = self.follow()
        follower.wait_until_synced()
        self.stop_api_server()
        wait_for("the store says so, once", lambda: follower.ask("problems").startswith("1 "), 30)
        self.assertIn("Connection refused", follower.ask("problems"))
        self.assertEqual("false", follower.ask("catch_up Service away/kept 5000"))
        self.assertIn("away/kept", follower.list("Service"))
        self.assertEqual("true", follower.ask("synced"))
        del follower.changed[:]
        self.cluster.start_api_server()
        self.api.delete("Service", "away", "deleted")
        self.api.patch("Service", "away", "changed", {"metadata": {"labels": {"new": "label"}}})
        self.api.apply(k8s.service("away", "made"))
        wait_for(
            "the changes are known",
            lambda: (
                set(follower.list("Service")) >= {"away/kept", "away/changed", "away/made"}
                and "away/deleted" not in follower.list("Service")
            ),
            NOTICED,
        )
        wait_for(
            "the label is known",
            lambda: follower.get("Service", "away/changed")["metadata"].get("labels") == {"new": "label"},
            NOTICED,
        )
        wait_for("nothing is missing", lambda: "refused" not in follower.ask("problems"), 40)
        told = [c for c in follower.changed if c.startswith("Service away/")]
        self.assertNotIn("Service away/kept", told)

    def test_a_token_is_read_again_from_its_file(self):
        self.api.apply(
            k8s.namespace("tokens"),
            k8s.account("tokens", "reader"),
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": "tokens-reader"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
                "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": "tokens"}],
            },
        )
        directory = self.rig.directory / "tokens"
        directory.mkdir()
        (directory / "token").write_text("not.a.token")
        (directory / "config").write_text(
            json.dumps(
                {
                    "current-context": "c",
                    "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
                    "clusters": [
                        {
                            "name": "k",
                            "cluster": {
                                "server": self.cluster.server,
                                "certificate-authority": str(self.cluster.pki.ca),
                            },
                        }
                    ],
                    "users": [{"name": "u", "user": {"tokenFile": "token"}}],
                }
            )
        )
        follower = self.follow(directory / "config")
        wait_for("it is refused", lambda: "Unauthorized" in follower.ask("problems"), 20)
        self.assertEqual("false", follower.ask("synced"))
        token = self.api.token_of("tokens", "reader")
        (directory / "new").write_text(token)
        os.replace(directory / "new", directory / "token")
        follower.wait_until_synced(40)
        self.assertNotIn("not.a.token", follower.close())

    def test_versions_that_etcd_compacted_are_listed_anew_and_nothing_is_missed(self):
        # Without the server's cache a watch is etcd's own, and its end as well.
        self.stop_api_server()
        self.addCleanup(self.cluster.stop_api_server)
        self.cluster.start_api_server("--watch-cache=false")
        self.api.apply(
            k8s.namespace("compacted", **MONITORED),
            *(k8s.service("compacted", name) for name in ("kept", "deleted", "changed")),
        )
        line = Line(self.cluster.namespace, self.cluster.address, API_PORT)
        self.addCleanup(line.cut)
        follower = self.follow(
            write_kubeconfig(
                self.cluster.directory / "line.kubeconfig",
                f"https://{line.address}:{line.port}",
                self.cluster.pki.ca,
                self.cluster.admin,
            )
        )
        follower.wait_until_synced()

        def count(metric, *labels):
            return float(follower.ask(" ".join(["metric", metric, "Service", *labels])))

        lists = count("osm_kubernetes_watch_lists_total")
        self.assertEqual(0, count("osm_kubernetes_watch_restarts_total", "gone"))
        line.cut()
        self.api.delete("Service", "compacted", "deleted")
        self.api.patch("Service", "compacted", "changed", {"metadata": {"labels": {"new": "label"}}})
        self.api.apply(k8s.service("compacted", "made"))
        self.cluster.compact_etcd()
        del follower.changed[:]
        line.mend()
        wait_for(
            "what happened meanwhile is known",
            lambda: (
                {s for s in follower.list("Service") if s.startswith("compacted/")}
                == {"compacted/kept", "compacted/changed", "compacted/made"}
            ),
            20,
        )
        self.assertEqual({"new": "label"}, follower.get("Service", "compacted/changed")["metadata"].get("labels"))
        self.assertEqual(1, count("osm_kubernetes_watch_restarts_total", "gone"))
        self.assertEqual(lists + 1, count("osm_kubernetes_watch_lists_total"))
        self.assertEqual(
            {"Service compacted/" + name for name in ("deleted", "changed", "made")},
            {c for c in follower.changed if c.startswith("Service compacted/")},
        )
        # It is a watch again, not one list after another.
        self.api.apply(k8s.service("compacted", "later"))
        wait_for("it is followed on", lambda: "compacted/later" in follower.list("Service"))
        self.assertEqual(lists + 1, count("osm_kubernetes_watch_lists_total"))

    def test_a_plugin_mints_tokens_anew_before_they_expire_and_when_they_are_refused(self):
        # Whose requests the audit log keeps.
        ns, account = "osm-system", "osm-controller"
        self.api.apply(
            k8s.namespace(ns),
            k8s.account(ns, account),
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": "minted"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
                "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": ns}],
            },
        )
        for ticket in ("first", "second", "third"):  # a token lives no longer than its Secret
            self.api.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": ticket, "namespace": ns}})
        plugin = MintingPlugin(self.cluster, self.rig.directory / "plugin", ns, account)
        plugin.say(ticket="first", seconds=35)  # 30 of which are left when it is renewed
        follower = self.follow(plugin.kubeconfig)
        follower.wait_until_synced()
        self.assertEqual(["first"], plugin.minted())  # once, though every kind asked

        def catch_up():
            return follower.ask("catch_up Namespace /osm-system 20000") == "true"

        wait_for("tokens are renewed", lambda: catch_up() and len(plugin.minted()) >= 3, 40)
        plugin.say(ticket="second", seconds=3600)
        wait_for("one that lives long is there", lambda: catch_up() and plugin.minted()[-1] == "second", 40)
        minted = len(plugin.minted())
        self.assertTrue(catch_up())
        self.assertEqual(minted, len(plugin.minted()))
        plugin.say(ticket="third", seconds=3600)
        self.api.delete("Secret", ns, "second")
        wait_for("the refused token is replaced", lambda: catch_up() and plugin.minted()[-1] == "third", 40)
        self.assertEqual(set(plugin.minted("id")), self.cluster.tokens_of(account))
        self.api.apply(k8s.service(ns, "minted"))
        wait_for("it follows on", lambda: f"{ns}/minted" in follower.list("Service"))
        log = follower.close()
        for token in plugin.minted("token"):
            self.assertNotIn(token, log)

    def test_without_a_grant_a_resource_is_named_and_followed_once_it_is_granted(self):
        self.api.apply(k8s.namespace("rbac"), k8s.account("rbac", "narrow"))
        follower = self.follow(self.cluster.kubeconfig_of_account("rbac", "narrow"))
        wait_for("it is refused", lambda: "is forbidden" in follower.ask("problems"), 20)
        self.assertIn("grant it to this account (RBAC)", follower.ask("problems"))
        self.api.apply(
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": "rbac-narrow"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
                "subjects": [{"kind": "ServiceAccount", "name": "narrow", "namespace": "rbac"}],
            }
        )
        follower.wait_until_synced(40)


if __name__ == "__main__":
    meshcase.main()
