# The API server, the controller manager and kube-proxy, and kubectl where the machine has none: one
# program (main.go) under their names.
module=k8s.io/kubernetes
packages=(osm.test/kubernetes)
programs=(kube-apiserver kube-controller-manager kube-proxy)
if ! command -v kubectl >/dev/null; then
  programs+=(kubectl)
  tags+=,kubectl
fi
IFS=. read -r major minor patch < <(sed -n "s|^require $module v\(.*\)|\1|p" go.mod)
stamp=k8s.io/component-base/version
flags+=" -X $stamp.gitVersion=v$major.$minor.$patch -X $stamp.gitMajor=$major -X $stamp.gitMinor=$minor"

finish() {
  local program
  for program in "${programs[@]}"; do ln -s kubernetes "$bin/$program"; done
}
