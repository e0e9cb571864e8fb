#!/usr/bin/python3
"""A real Vault, set up as docs/certificates.md says, passes its contract."""

import os
import pathlib
import sys

from contract import real

from lib.kube.pki import Pki
from lib.mesh.vault_server import PORT, Vault, documented_commands
from lib.net.netns import Switch

VAULT = pathlib.Path(
    os.environ.get("OSM_VAULT", pathlib.Path(__file__).resolve().parents[2] / "build/tools/vault/bin/vault")
)


class VaultContract(real.ContractCase):
    def test_a_real_vault_keeps_the_contract(self):
        if not VAULT.exists():
            sys.exit(f"{VAULT} is missing: tools/setup --vault builds it")
        vault = Vault(self.rig, VAULT, Pki(self.rig.directory / "pki"), Switch.ADDRESS)
        commands = documented_commands()
        for block in ("authorities", "role", "token"):
            vault.run(commands[block])
        self.run_contract(
            "vault",
            {
                "OSM_CONTRACT_VAULT": f"{Switch.ADDRESS}:{PORT}",
                "OSM_CONTRACT_VAULT_CA_FILE": vault.ca,
                "OSM_CONTRACT_VAULT_ROOT_TOKEN": vault.root_token,
                "OSM_CONTRACT_VAULT_UNSEAL_KEY": vault.unseal_key,
            },
        )


if __name__ == "__main__":
    real.main()
