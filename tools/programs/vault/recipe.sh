# Vault's server and command line in one. go.mod holds that release's own requirements; its sdk is a
# version that is published, where the release took the one of its own tree.
module=github.com/hashicorp/vault
packages=("$module")
