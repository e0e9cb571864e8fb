# Consul: agent and command line in one. This release is under the MPL 2.0, as are all modules of
# Consul that it needs; v1.17 and later are not open source. go.mod holds its own requirements, with
# the published api, sdk and proto-public in place of those of its tree.
module=github.com/hashicorp/consul
packages=("$module")
export CGO_ENABLED=0
