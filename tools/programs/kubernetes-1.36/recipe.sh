# The same programs of the newest Kubernetes that is supported, for the nightly tier.
source ../kubernetes/recipe.sh
