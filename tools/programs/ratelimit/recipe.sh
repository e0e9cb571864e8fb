# The rate-limit server whose protocol Envoy speaks.
module=github.com/envoyproxy/ratelimit
packages=("$module/src/service_cmd")
programs=(ratelimit)

finish() { mv "$bin/service_cmd" "$bin/ratelimit"; }
