"""A rig with several controllers of one mesh, each on a machine of its own, with a state of its own.

A subclass says where the mesh's objects are: EtcdRig, KubernetesRig, and DirectoryRig, which has one
controller. A machine's proxy connects to one of the controllers, in turn or as place() says.
"""

import json
import re
import signal

from lib.mesh import admin
from lib.mesh.rig import ADS_PORT, HTTP_PORT, Rig
from lib.net.processes import NotYet, wait_for

CONTROLLERS = {f"controller-{n}": f"10.200.251.{n}" for n in (1, 2, 3)}


def first(count):
    """CONTROLLERS of a mesh with so many."""
    return dict(list(CONTROLLERS.items())[:count])


class ReplicatedRig(Rig):
    CONTROLLERS = CONTROLLERS  # {name: address}
    MEMBERS = {}  # other machines of the control plane, plugged in before

    def __init__(self, programs, keep=False):
        super().__init__(programs, keep)
        self.controllers, self.hosts = {}, {}  # {name: Process}, {name: Namespace}
        for name, address in {**self.MEMBERS, **self.CONTROLLERS}.items():
            self.hosts[name] = self.switch.plug_in(name, address)

    def flags(self, name):
        """The flags of a controller, without `controller_flags`."""
        address = self.CONTROLLERS[name]
        return (
            *("--state-dir", self.state_of(name)),
            *("--ads-address", f"{address}:{ADS_PORT}"),
            *("--http-address", f"{address}:{HTTP_PORT}"),
            *self.source_flags(name),
        )

    def source_flags(self, name):
        """The flags that say where the mesh's objects are."""
        raise NotImplementedError

    # -- controllers ----------------------------------------------------------------------------
    def running(self):
        return [name for name, controller in self.controllers.items() if controller.running()]

    def state_of(self, name):
        return self.directory / f"{name}-state"

    def start_one(self, name):
        """Its machine has its name, as a pod has."""
        self.controllers[name] = self.start_named(
            name, self.programs.controller, *self.flags(name), *self.controller_flags
        )

    def start_named(self, name, *command):
        """A process on the machine `name`, whose host name is `name`."""
        renamed = "unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', name
        return self.start(name, self.hosts[name].command(*renamed, *command))

    def stop_one(self, name, how=signal.SIGTERM, timeout=25):
        """Its exit status. A controller that ends well takes up to 20 s while proxies are connected."""
        return self.controllers[name].end(how, timeout)

    def wait_until_answering(self, *names, timeout=40):
        """Until the admin API of these controllers answers."""
        for name in names:

            def answers():
                if not self.controllers[name].running():
                    raise AssertionError(f"{name} ended: {self.controllers[name].tail()}")
                return self.admin_at(name, "/v1/version")[0] == 200

            wait_for(f"{name} answers", answers, timeout, retry=(FileNotFoundError,))

    def wait_until_ready(self, timeout=40):
        for name in self.running():

            def ready():
                if not self.controllers[name].running():
                    raise AssertionError(f"{name} ended: {self.controllers[name].tail()}")
                answer = self.http(name, "/health/ready")
                if answer[0] != 200:
                    raise NotYet(answer)
                return True

            wait_for(f"{name} is ready", ready, timeout)

    # -- asking ---------------------------------------------------------------------------------
    def http(self, name, path):
        return self.hosts[name].http(self.CONTROLLERS[name], HTTP_PORT, "GET", path)

    def admin_at(self, name, path, method="GET", body=None):
        """(status, object) of the admin API of this controller."""
        return admin.ask(self.state_of(name), method, path, body)

    def count_of(self, name, series):
        """A counter of this controller; 0 before it is counted first."""
        found = re.search(rf"^{re.escape(series)} (\S+)$", self.http(name, "/metrics")[1], re.M)
        return float(found.group(1)) if found else 0

    def osm(self, *arguments, at=None, state=None, **more):
        """At the controller `at`, or the last one that runs."""
        return super().osm(*arguments, state=state or self.state_of(at or self.running()[-1]), **more)

    def osm_json(self, *arguments):
        """At the controller of the machine's proxy, to rotate its certificate; else at the last one
        that runs."""
        at = self.machines[arguments[2].split(".")[0]].at if arguments[:2] == ("certificate", "rotate") else None
        return json.loads(self.osm(*arguments, "-o", "json", at=at))

    def admin(self, method, path, body=None, state=None):
        """At the last controller that runs; of /v1/proxies, each controller's own proxies."""
        asked = [state] if state else self.states() if path == "/v1/proxies" else self.states()[-1:]
        answers = [super(ReplicatedRig, self).admin(method, path, body, each) for each in asked]
        if "proxies" in answers[0]:
            answers[0]["proxies"] = [p for answer in answers for p in answer["proxies"] if p["connected_at"]]
        return answers[0]

    def states(self):
        return [self.state_of(name) for name in self.running()]

    # -- machines -------------------------------------------------------------------------------
    def add_vm(self, name, ns, address):
        """The machines are at the controllers in turn."""
        machine = super().add_vm(name, ns, address)
        self.place(machine, list(self.CONTROLLERS)[(len(self.machines) - 1) % len(self.CONTROLLERS)])
        return machine

    def place(self, machine, controller):
        """Before the machine is bootstrapped: its proxy connects to this controller."""
        machine.at, machine.controller = controller, self.ads_address_of(controller)

    def ads_address_of(self, name):
        return f"{self.CONTROLLERS[name]}:{ADS_PORT}"

    def close(self):
        closes = not self.closed and not self.keep
        super().close()
        for host in getattr(self, "hosts", {}).values() if closes else ():
            host.delete()
