"""`osm vm renew` on a machine, once or continuously, as root."""

import json


def command(machine, *flags):
    """Inside the machine, past its interception: root's own traffic would go through Envoy."""
    return machine.namespace.command(machine.rig.programs.osm, "vm", "renew", "--dir", machine.directory, *flags)


def renew(machine, *flags, check=True):
    """Once. Its answer, or None when it failed (with `check` it may not)."""
    ran = machine.namespace.run(
        machine.rig.programs.osm, "vm", "renew", "--dir", machine.directory, "-o", "json", *flags, check=check
    )
    return json.loads(ran.stdout) if ran.returncode == 0 else None


def keep_renewing(machine, every="1s"):
    """Until the run ends, as docs/vm.md has machines do."""
    return machine.rig.start(f"{machine.name}.renew", command(machine, "--every", every))


def serials(machine):
    """Serial numbers of the certificates that the machine's Envoy holds."""
    status, text = machine.admin("/certs")
    if status != 200:
        raise ValueError(text)
    return {
        chain["serial_number"].lower().lstrip("0")
        for certificate in json.loads(text)["certificates"]
        for chain in certificate["cert_chain"]
    }
