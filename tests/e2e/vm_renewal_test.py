#!/usr/bin/python3
"""Machines replace their own certificates under load: Envoy takes them without a restart, its stream
stays, and no request fails."""
from lib.mesh import meshcase
from lib.mesh.renewal import renew, serials
from lib.net.processes import wait_for

HOST = "server.server"
FILES = ("sds_key.pem", "sds_cert.pem", "cacert.pem")


class VmRenewal(meshcase.MeshCase):
    def setUp(self):
        super().setUp()
        self.client, self.server = self.add_client_and_server()
        self.start_mesh()
        self.serve(self.server)
        self.wait_for_status(self.client, 200, HOST)
        self.wait_until_synced()

    def contents(self, machine):
        return {name: (machine.directory / name).read_text() for name in FILES}

    def streams(self):
        return {name: proxy["connected_at"] for name, proxy in self.proxies().items()}

    def test_envoy_takes_a_renewed_certificate_and_nothing_else_happens(self):
        machines = (self.client, self.server)
        load = meshcase.Load(self.client)
        self.addCleanup(load.stop)
        streams = self.streams()
        pids = {m.name: m.proxy.pid for m in machines}
        for _ in range(4):
            for machine in machines:
                before, requests = serials(machine), load.requests
                answer = renew(machine, "--force")
                self.assertEqual(answer["result"], "renewed")
                serial = answer["serial_number"].lower().lstrip("0")
                self.assertNotIn(serial, before)
                wait_for(f"Envoy of {machine.name} holds {serial}",
                         lambda m=machine, s=serial: s in serials(m))
                wait_for("requests after it", lambda n=requests: load.requests > n + 10)
                self.assertEqual(renew(machine)["result"], "current")
        self.assertEqual(self.streams(), streams)
        self.assertEqual({m.name: m.proxy.pid for m in machines if m.proxy.running()}, pids)
        load.stop()
        self.assertEqual(load.failures, [])
        self.assertGreater(load.requests, 80)

        with self.subTest("with it Envoy connects again"):
            self.rig.stop_controller()
            self.rig.start_controller()
            self.wait_until_synced()
            self.assertNotEqual(self.streams(), streams)

    def test_a_machine_that_was_deleted_gets_no_certificate_and_the_other_goes_on(self):
        before = self.contents(self.client)
        self.rig.mesh.remove("machine-client.yaml")
        wait_for("the machine to go", lambda: "client" not in self.proxies())
        self.assertIsNone(renew(self.client, "--force", check=False))
        self.assertEqual(self.contents(self.client), before)
        self.assertEqual(renew(self.server, "--force")["result"], "renewed")


if __name__ == "__main__":
    meshcase.main()
