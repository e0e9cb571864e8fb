# cnitool and two network plugins, before which and after which osm-cni is called.
module=github.com/containernetworking/cni
plugins=github.com/containernetworking/plugins/plugins
packages=("$module/cnitool" "$plugins/main/ptp" "$plugins/ipam/host-local")
programs=(cnitool ptp host-local)
