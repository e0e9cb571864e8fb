# Vault's server and command line in one, without the back ends that no test uses (prune.rules).
# go.mod holds that release's own requirements; its sdk is a version that is published, where the
# release took the one of its own tree.
module=github.com/hashicorp/vault
packages=("$module")
pruned=("$module" github.com/hashicorp/go-discover)
