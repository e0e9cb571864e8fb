#!/usr/bin/python3
"""The mesh moves to another trust domain under load; old names are refused afterwards."""

import datetime
import json
import os
import re
import signal
import ssl

from lib.mesh import meshcase, objects
from lib.mesh.authority import Authority
from lib.mesh.renewal import keep_renewing
from lib.mesh.rig import PROXY_UID
from lib.mesh.roots import RootCase
from lib.net.processes import wait_for

OLD, NEW = "cluster.local", "new.example"
HOST, PORT, SERVER = "server.server", meshcase.PORT, "10.200.0.12"
NAMES = "validation_context_sds_secret.yaml"


class TrustDomain(RootCase):
    def start(self, permissive=False):
        self.rig.mesh.write("mesh-config.yaml", objects.mesh_config(permissive))
        self.client, self.server = self.add_client_and_server()
        self.start_mesh()
        self.serve(self.server)
        self.wait_for_status(self.client, 200, HOST)
        if not permissive:
            self.wait_for_status(self.client, 404, HOST, "/books-sold")

    def move_to(self, name, domain):
        """Declares a root of `domain`, and follows it until it signs."""
        osm = self.rotate(name, "--trust-domain", domain)
        self.assertEqual(self.roots()[name]["trust_domain"], domain)
        return osm

    def identities(self):
        return {c["spiffe_id"] for c in self.rig.admin("GET", "/v1/certificates")["certificates"]}

    def names(self, machine):
        """The names under which `machine` takes a control plane for its own."""
        return re.findall(r'"spiffe://([^/]+)/osm/controller"', (machine.directory / NAMES).read_text())

    def names_in_use(self, machine):
        """What its Envoy has made of that file."""
        dump = json.loads(machine.admin("/config_dump?resource=dynamic_active_secrets")[1])
        (context,) = [c["secret"] for c in dump["configs"] if c["name"] == "validation_context_sds"]
        return re.findall("spiffe://([^/]+)/osm/controller", json.dumps(context))

    def issue(self, authority, uri):
        """Files of a certificate that the mesh's new CA would sign for nobody else."""
        now, hour = datetime.datetime.now(datetime.timezone.utc), datetime.timedelta(hours=1)
        certificate, key = authority.issue("somebody", uri, now - hour, now + hour)
        files = self.rig.directory / "somebody.pem", self.rig.directory / "somebody-key.pem"
        for file, content in zip(files, (certificate, key)):
            file.write_text(content)
        return files

    def answer_to(self, files):
        """Answer of the server's proxy to a workload with this certificate; empty: none."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols(["osm"])
        context.load_cert_chain(*map(str, files))
        opened = self.client.namespace.connect(SERVER, PORT, uid=PROXY_UID)
        try:
            with context.wrap_socket(opened, server_hostname="server.server.svc.cluster.local") as tls:
                tls.sendall(f"GET /books-bought HTTP/1.1\r\nHost: {HOST}:{PORT}\r\nConnection: close\r\n\r\n".encode())
                return tls.recv(4096).decode()
        except (ssl.SSLError, ConnectionError):
            return ""

    def refused_names(self):
        """Handshakes that the server's Envoy ended because of the client's identity."""
        return sum(self.server.stats(r"^listener\..*ssl\.fail_verify_san$").values())

    def present(self, files):
        """The client's proxy starts with this certificate."""
        self.client.stop_proxy()
        self.client.proxy.log.unlink()
        for source, name in zip(files, ("sds_cert.pem", "sds_key.pem")):
            path = self.client.directory / name
            path.write_text(source.read_text())
            os.chown(path, PROXY_UID, PROXY_UID)
        self.client.start_proxy(wait=False)

    def move(self):
        """To NEW, under load, in which no request fails."""
        load = meshcase.Load(self.client)
        self.addCleanup(load.stop)
        osm = self.move_to("next", NEW)
        self.wait_for_states(next="signing", own="draining")
        with self.subTest("workloads have their new names before anybody forgets the old ones"):
            wait_for(
                "every leaf to be renamed",
                lambda: not [i for i in self.identities() if i.startswith(f"spiffe://{OLD}/ns/")],
            )
            self.assertIn(f"spiffe://{NEW}/ns/client/sa/client", self.identities())
        with self.subTest("proxies meet a control plane of the old name, which they know"):
            self.assertIn(f"spiffe://{OLD}/osm/controller", self.identities())
            self.assertEqual(self.names(self.client), [OLD])
        # Envoy can read the new key before the new certificate is in its place. It refuses that pair,
        # and reads again with the next file.
        self.rig.watcher.tolerated = {"sds.validation_context_sds.update_rejected"}
        for machine in (self.client, self.server):
            machine.bootstrap()
            wait_for(f"{machine.name}: Envoy uses the new files", lambda m=machine: self.names_in_use(m) == [OLD, NEW])
        self.wait_for_states(next="signing", own="inactive", timeout=90)
        self.assert_followed_to_the_end(osm)
        self.wait_until_synced()
        load.check(self, more=10)
        load.stop()
        self.assertEqual(load.failures, [])
        wait_for("every name to be of it", lambda: all(i.startswith(f"spiffe://{NEW}/") for i in self.identities()))
        self.assertIn(f"spiffe://{NEW}/osm/controller", self.identities())
        shown = self.client.admin("/certs")[1]
        self.assertIn(f"spiffe://{NEW}/ns/client/sa/client", shown)
        self.assertNotIn(f"spiffe://{OLD}/ns/", shown)

    def test_a_mesh_with_policies_moves_without_a_failed_request(self):
        self.start()
        self.move()
        with self.subTest("policies are what they were"):
            self.wait_for_status(self.client, 404, HOST, "/books-sold")
            self.wait_for_status(self.client, 200, HOST)
        authority = Authority(self.rig.directory / "next-ca", self.rig.state / "roots" / "next" / "ca.pem")
        with self.subTest("a workload's certificate of the old domain is refused, whoever signed it"):
            new = self.issue(authority, f"spiffe://{NEW}/ns/client/sa/client")
            self.assertIn("200 OK", self.answer_to(new))
            other = self.issue(authority, f"spiffe://{NEW}/ns/client/sa/other")
            self.assertIn("403 Forbidden", self.answer_to(other))
            old = self.issue(authority, f"spiffe://{OLD}/ns/client/sa/client")
            before = self.refused_names()
            self.assertEqual(self.answer_to(old), "")
            wait_for("the server's Envoy counts it", lambda: self.refused_names() == before + 1)
        with self.subTest("and so is a proxy's"):
            uuid = self.proxies()["client"]["uuid"]
            self.present(self.issue(authority, f"spiffe://{OLD}/osm/proxy/{uuid}/client/client"))
            self.client.proxy.wait_for_log("wrong-certificate-kind", 10)
            self.assertNotIn("client", self.proxies())
            self.present(self.issue(authority, f"spiffe://{NEW}/osm/proxy/{uuid}/client/client"))
            self.client.wait_until_live()
            self.wait_until_synced()
        with self.subTest("a controller's certificate of the mesh with another name is not believed"):
            self.client.stop_proxy()
            files = {name: (self.client.directory / name).read_text() for name in ("bootstrap.yaml", NAMES)}
            for name, text in files.items():
                (self.client.directory / name).write_text(text.replace(f"{NEW}/osm/controller", f"{NEW}/osm/other"))
            self.client.proxy.log.unlink()
            self.client.start_proxy(wait=False, extra=["--component-log-level", "connection:debug"])
            self.client.proxy.wait_for_log("CERTIFICATE_VERIFY_FAILED")
            self.assertNotIn("client", self.proxies())
        with self.subTest("one name of several is enough, also when it comes while Envoy runs"):
            fresh = self.client.directory / "names.new"
            fresh.write_text(files[NAMES])
            os.chown(fresh, PROXY_UID, PROXY_UID)
            os.rename(fresh, self.client.directory / NAMES)
            self.wait_until_synced()

    def test_a_permissive_mesh_whose_machines_renew_themselves_moves_and_comes_back(self):
        self.start(permissive=True)
        renewers = [keep_renewing(machine) for machine in (self.client, self.server)]
        load = meshcase.Load(self.client)
        self.addCleanup(load.stop)
        before = {"own": "inactive"}
        for name, domain in (("next", NEW), ("back", OLD)):
            osm = self.move_to(name, domain)
            self.wait_for_states(**before, **{name: "signing"}, timeout=120)
            self.assert_followed_to_the_end(osm)
            before = {name: "inactive"}
            wait_for(
                f"every name to be of {domain}",
                lambda: all(i.startswith(f"spiffe://{domain}/") for i in self.identities()),
            )
            wait_for(
                "machines to know it by that name alone",
                lambda: [self.names(machine) for machine in (self.client, self.server)] == [[domain]] * 2,
            )
            with self.subTest("proxies find a controller that was killed again, by its new name"):
                self.rig.stop_controller(signal.SIGKILL)
                self.rig.start_controller()
                self.wait_until_synced()
                self.assertIn(f"spiffe://{domain}/osm/controller", self.identities())
        load.check(self, more=10)
        load.stop()
        self.assertEqual(load.failures, [])
        for process in renewers:
            self.assertTrue(process.running())

    def test_unsafe_edits_of_the_signing_root_are_not_applied(self):
        self.start()
        self.move_to("next", OLD)
        file = self.rig.mesh.path / "osm-root-certificates.yaml"
        self.rig.mesh.write_text(file.name, file.read_text().replace(OLD, NEW))
        wait_for("the remedy is told", lambda: "spec.trustDomain back" in self.roots()["next"]["waiting_for"])
        self.assertEqual(self.roots()["next"]["trust_domain"], OLD)
        self.wait_for_status(self.client, 200, HOST)


if __name__ == "__main__":
    meshcase.main()
