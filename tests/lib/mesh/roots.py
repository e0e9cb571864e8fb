"""`osm certificate rotate` as an operator runs it, and the states of roots."""

from lib.mesh import meshcase
from lib.net.processes import NotYet, wait_for


class RootCase(meshcase.MeshCase):
    def setUp(self):
        super().setUp()
        # A draining root waits for the next recall after a machine has renewed its certificate.
        self.rig.controller_flags = ("--proxy-recall-interval", "2")

    def roots(self, state=None):
        """As the controller with state directory `state` knows them; None: the rig's."""
        return {r["name"]: r for r in self.rig.admin("GET", "/v1/roots", state=state)["roots"]}

    def rotate(self, name, *flags):
        """Declares a root and waits until it signs. The `osm` that goes on following it."""
        osm = self.rig.start(
            f"rotate-{name}",
            [
                self.rig.programs.osm,
                "certificate",
                "rotate",
                "--mesh-dir",
                self.rig.mesh.path,
                "--name",
                name,
                "--wait",
                "5m",
                "--state-dir",
                self.rig.state,
                *flags,
            ],
        )
        osm.wait_for_log(f"{name}: signing", 30)
        return osm

    def assert_followed_to_the_end(self, osm):
        """`osm` saw every other root become inactive, and ended by itself."""
        self.assertEqual(osm.popen.wait(10), 0, osm.text())

    def wait_for_states(self, timeout=30, state=None, **states):
        """`own` stands for the CA of the controller's flags."""
        wanted = {{"own": "(own)"}.get(name, name): state for name, state in states.items()}

        def reached():
            roots = self.roots(state)
            seen = {name: root["state"] for name, root in roots.items()}
            if any(seen.get(name) != state for name, state in wanted.items()):
                raise NotYet(roots)
            return True

        wait_for(f"the roots to be {wanted}", reached, timeout)
