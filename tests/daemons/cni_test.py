#!/usr/bin/python3
"""The CNI plugin, called by cnitool after real network plugins, redirects a pod, is repeatable, leaves
other pods alone, refuses forged annotations; its installer comes back into a changed configuration, and
removes all of it.

usage: cni_test.py --bin DIRECTORY
"""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile

from lib.mesh.daemon import DaemonTest, run
from lib.net import netns
from lib.net.processes import Process, wait_for

TOOLS = pathlib.Path(os.environ["OSM_CNI_TOOLS"])  # tools/programs/build cni
ANNOTATION = "openservicemesh.io/interception"
NETWORK = {
    "cniVersion": "1.0.0",
    "name": "pods",
    "plugins": [
        {
            "type": "ptp",
            "ipMasq": False,
            "ipam": {"type": "host-local", "subnet": "10.77.0.0/24", "routes": [{"dst": "0.0.0.0/0"}]},
        }
    ],
}


class CniTest(DaemonTest):
    @classmethod
    def setUpClass(cls):
        cls.directory = pathlib.Path(tempfile.mkdtemp(prefix="osm-cni-"))
        cls.addClassCleanup(shutil.rmtree, cls.directory, ignore_errors=True)
        cls.plugins, cls.conf = cls.directory / "bin", cls.directory / "net.d"
        cls.plugins.mkdir()
        cls.conf.mkdir()
        for plugin in ("ptp", "host-local"):
            shutil.copy(TOOLS / plugin, cls.plugins)
        (cls.conf / "10-pods.conflist").write_text(json.dumps(NETWORK))
        cls.node = netns.Namespace(f"osm-{os.getpid()}-node")
        cls.addClassCleanup(cls.node.delete)

    def setUp(self):
        super().setUp()
        self.installer = Process(
            "installer",
            [self.bin / "osm-cni", "install", *self.folders(), "--image", self.bin.parent / "images/osm-init.root"],
            self.directory / "log",
        )
        self.addCleanup(self.installer.end)
        wait_for("the runtime is to call the plugin", self.is_chained)
        self.pod = netns.Namespace(f"osm-{os.getpid()}-pod")
        self.addCleanup(self.pod.delete)

    def folders(self):
        return "--bin-dir", self.plugins, "--conf-dir", self.conf

    def osm_cni(self, *arguments):
        return subprocess.run([self.bin / "osm-cni", *map(str, arguments)], capture_output=True, text=True)

    def is_chained(self):
        return self.osm_cni("ready", *self.folders()).returncode == 0

    def cnitool(self, command, annotation=None):
        annotations = {} if annotation is None else {ANNOTATION: annotation}
        return subprocess.run(
            self.node.command(TOOLS / "cnitool", command, "pods", f"/run/netns/{self.pod.name}"),
            capture_output=True,
            text=True,
            env={
                **os.environ,
                "CNI_PATH": str(self.plugins),
                "NETCONFPATH": str(self.conf),
                "CAP_ARGS": json.dumps({"io.kubernetes.cri.pod-annotations": annotations}),
            },
        )

    def add(self, annotation):
        self.addCleanup(self.cnitool, "del", annotation)
        return self.cnitool("add", annotation)

    def expect_added(self, annotation):
        """The result of the last plugin."""
        added = self.add(annotation)
        self.assertEqual(0, added.returncode, added.stdout + added.stderr)
        return json.loads(added.stdout)

    def test_a_pod_with_the_annotation_is_redirected_and_leaves_nothing(self):
        annotation = json.dumps({"outboundPorts": [9999], "localProxyMode": "PodIP"})
        address = self.expect_added(annotation)["ips"][0]["address"].split("/")[0]
        proxy = self.pod.listen("0.0.0.0", 15001)
        self.addCleanup(proxy.close)
        for port, redirected in ((80, True), (9999, False)):
            with self.subTest(port=port):
                dialled = self.pod.inside(lambda: self.dial("198.51.100.7", port))
                self.addCleanup(dialled.close)
                proxy.settimeout(5 if redirected else 0.5)
                if redirected:
                    proxy.accept()[0].close()
                else:
                    self.assertRaises(TimeoutError, proxy.accept)
        self.assertIn(f"--to-destination {address}", self.pod.run("iptables", "-t", "nat", "-S").stdout)
        checked = self.cnitool("check", annotation)
        self.assertEqual(0, checked.returncode, checked.stdout + checked.stderr)
        self.assertEqual(0, self.pod.run(self.bin / "osm-cni", "check").returncode)
        self.pod.run("iptables", "-t", "filter", "-D", "INPUT", "-p", "tcp", "-j", "OSM_PROXY_DIRECT")
        broken = self.cnitool("check", annotation)
        self.assertIn("the pod's traffic is not redirected", broken.stdout + broken.stderr)
        deleted = self.cnitool("del", annotation)
        self.assertEqual(0, deleted.returncode, deleted.stdout + deleted.stderr)
        self.assertNotIn(address, self.node.run("ip", "route").stdout)

    def test_the_name_servers_that_the_runtime_tells_are_asked_by_tcp_past_the_proxy(self):
        self.expect_added("{}")
        ran = self.call_plugin({ANNOTATION: "{}"}, dns={"servers": ["10.96.0.10", "fd00::1"]})
        self.assertEqual(0, ran.returncode, ran.stdout + ran.stderr)
        spared = [rule for rule in self.rules().splitlines() if "--dport 53" in rule]
        self.assertEqual(["-A OSM_PROXY_OUTBOUND -d 10.96.0.10/32 -p tcp -m tcp --dport 53 -j RETURN"], spared)

    def call_plugin(self, annotations, **runtime):
        """The plugin itself, as the runtime calls it for a pod that has its network."""
        return subprocess.run(
            [self.plugins / "osm-cni"],
            capture_output=True,
            text=True,
            input=json.dumps(
                {
                    "cniVersion": "1.0.0",
                    "name": "pods",
                    "type": "osm-cni",
                    "prevResult": {"cniVersion": "1.0.0", "ips": [{"address": "10.77.0.2/24"}]},
                    "runtimeConfig": {"io.kubernetes.cri.pod-annotations": annotations, **runtime},
                }
            ),
            env={
                "CNI_COMMAND": "ADD",
                "CNI_NETNS": f"/run/netns/{self.pod.name}",
                "CNI_CONTAINERID": "a",
                "CNI_IFNAME": "eth0",
                "CNI_PATH": str(self.plugins),
            },
        )

    @staticmethod
    def dial(host, port):
        opened = socket.socket()
        opened.setblocking(False)
        opened.connect_ex((host, port))
        return opened

    def test_an_addition_that_is_repeated_has_the_effect_of_one(self):
        self.expect_added("{}")
        once = self.rules()
        ran = self.call_plugin({ANNOTATION: "{}"})
        self.assertEqual(0, ran.returncode, ran.stdout + ran.stderr)
        self.assertEqual("10.77.0.2/24", json.loads(ran.stdout)["ips"][0]["address"])
        self.assertEqual(once, self.rules())

    def rules(self):
        return (
            self.pod.run("iptables", "-t", "nat", "-S").stdout + self.pod.run("iptables", "-t", "filter", "-S").stdout
        )

    def test_a_pod_without_the_annotation_is_left_as_it_is(self):
        self.expect_added(None)
        self.assertNotIn("OSM", self.rules())
        self.assertEqual(0, self.cnitool("check").returncode)
        checked = self.pod.run(self.bin / "osm-cni", "check", check=False)
        self.assertEqual(1, checked.returncode)
        self.assertIn("not redirected to its sidecar", checked.stderr)

    def test_an_annotation_that_somebody_else_wrote_stops_the_pod(self):
        added = self.add('{"interfaces": ["eth0 -j ACCEPT"]}')
        self.assertNotEqual(0, added.returncode)
        self.assertIn("is no interface", added.stdout + added.stderr)
        self.assertNotIn("OSM", self.rules())

    def test_files_that_are_gone_stop_the_pod_with_the_remedy(self):
        self.installer.end()
        shutil.rmtree(self.plugins / "osm-cni.root")
        added = self.add("{}")
        self.assertNotEqual(0, added.returncode)
        self.assertIn("osm-cni pod of this node", added.stdout + added.stderr)

    def call(self, command, configuration):
        ran = subprocess.run(
            [self.plugins / "osm-cni"],
            capture_output=True,
            text=True,
            input=configuration,
            env={"CNI_COMMAND": command},
        )
        return ran.returncode, json.loads(ran.stdout or "{}")

    def test_errors_and_versions_of_the_specification(self):
        status, answer = self.call("VERSION", '{"cniVersion": "0.4.0"}')
        self.assertEqual(0, status)
        self.assertIn("1.0.0", answer["supportedVersions"])
        for command, configuration, code in (
            ("ADD", "no JSON", 6),
            ("ADD", '{"cniVersion": "9.9.9"}', 1),
            ("ADD", '{"cniVersion": "1.0.0"}', 4),
            ("EAT", '{"cniVersion": "1.0.0"}', 4),
        ):
            with self.subTest(command=command, configuration=configuration):
                status, answer = self.call(command, configuration)
                self.assertEqual((1, code), (status, answer["code"]))
                self.assertTrue(answer["msg"].startswith("osm-cni: "))
        self.assertEqual((0, {}), self.call("STATUS", '{"cniVersion": "1.1.0"}'))

    def test_the_installer_comes_back_into_a_file_that_is_written_anew(self):
        (self.conf / "10-pods.conflist").write_text(json.dumps(NETWORK))
        wait_for("the plugin is there again", self.is_chained)
        self.assertEqual(0, self.installer.end(signal.SIGTERM))
        self.assertTrue(self.is_chained())  # a node that starts needs it before any pod
        removed = self.osm_cni("remove", *self.folders())
        self.assertEqual(0, removed.returncode, removed.stderr)
        self.assertEqual(NETWORK, json.loads((self.conf / "10-pods.conflist").read_text()))
        self.assertEqual(["host-local", "ptp"], sorted(os.listdir(self.plugins)))


if __name__ == "__main__":
    run()
