#!/usr/bin/python3
"""Names of 63 characters pass certificates, gRPC and Envoy, and policies have names of up to 253."""

from lib.mesh import meshcase, objects

CLIENT, SERVER = "c" * 63, "s" * 63
ROUTES, TARGET = "r" * 253, "t" * 64


class Names(meshcase.MeshCase):
    def test_namespaces_accounts_and_services_of_63_characters(self):
        client = self.add_machine(CLIENT, "10.200.0.11")
        server = self.add_machine(SERVER, "10.200.0.12")
        self.rig.mesh.write(
            "server.yaml",
            objects.service(SERVER, SERVER, "10.96.0.12", meshcase.PORT),
            objects.routes(SERVER, ROUTES, books={}),
            objects.target(SERVER, TARGET, SERVER, [(CLIENT, CLIENT)], ("HTTPRouteGroup", ROUTES, ["books"])),
        )
        self.start_mesh()
        self.serve(server)
        host = f"{SERVER}.{SERVER}.svc.cluster.local"
        self.wait_for_status(client, 200, host)
        self.assertIn(
            f"spiffe://cluster.local/ns/{CLIENT}/sa/{CLIENT}", client.get(host, meshcase.PORT, "/books-bought")[1]
        )
        names = {p["common_name"].split(".", 1)[1] for p in self.proxies().values()}
        self.assertEqual(names, {f"{CLIENT}.{CLIENT}", f"{SERVER}.{SERVER}"})


if __name__ == "__main__":
    meshcase.main()
