# The controller and the injector of OSM v1.2.4, and the CRDs that its osm-bootstrap installs.
module=github.com/openservicemesh/osm
packages=("$module/cmd/osm-controller" "$module/cmd/osm-injector")
pruned=("$module")
# Its Makefile does the same: the version is in the labels of the Secrets that the injector writes.
flags+=" -X $module/pkg/version.Version=$(sed -n "s|^require $module \(v.*\)|\1|p" go.mod)"

amend() { # DIRECTORY: the module embeds an extension of Envoy that its Makefile fetches; empty is none
  touch "$1/osm/pkg/envoy/lds/stats.wasm"
}

finish() {
  local sources crds=$tools/osm-v1/crds
  sources=$(GOTOOLCHAIN=local "$go" list -mod=readonly -m -f '{{.Dir}}' "$module")/cmd/osm-bootstrap/crds
  rm -rf "$crds" && mkdir -p "$crds"
  install -m 644 "$sources"/*.yaml "$crds"
}
