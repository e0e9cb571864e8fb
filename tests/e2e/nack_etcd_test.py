#!/usr/bin/python3
"""Nobody takes an object or a limit from others by refusing it at another controller of the mesh, and every
controller tells the same refusals.
"""

import nack_test

from lib.mesh import meshcase
from lib.mesh.environments import TwoOverEtcd


class ThiefAtAnotherController(nack_test.Thief):
    make_rig = TwoOverEtcd

    def setUp(self):
        super().setUp()
        self.assertNotEqual(self.thief.at, self.server.at)

    def problems(self):
        return [self.rig.admin_at(name, "/v1/problems")[1]["problems"] for name in self.rig.CONTROLLERS]

    def restart_controller(self):
        self.rig.stop_one(self.thief.at)
        self.rig.start_one(self.thief.at)
        self.rig.wait_until_answering(self.thief.at)


if __name__ == "__main__":
    meshcase.main()
