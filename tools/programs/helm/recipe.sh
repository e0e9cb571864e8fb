# Helm, which installs charts/osm.
module=helm.sh/helm/v3
packages=("$module/cmd/helm")
programs=(helm)
