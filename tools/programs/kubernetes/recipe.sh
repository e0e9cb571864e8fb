# The API server, the controller manager and kube-proxy, and kubectl where the machine has none.
module=k8s.io/kubernetes
packages=("$module"/cmd/kube-{apiserver,controller-manager,proxy})
command -v kubectl >/dev/null || packages+=("$module/cmd/kubectl")
IFS=. read -r major minor patch < <(sed -n "s|^require $module v\(.*\)|\1|p" go.mod)
stamp=k8s.io/component-base/version
flags+=" -X $stamp.gitVersion=v$major.$minor.$patch -X $stamp.gitMajor=$major -X $stamp.gitMinor=$minor"
