"""Ingress gateways outside of the mesh: a real nginx and a real Envoy, each in a namespace, and the
TLS of a caller that may lie."""

import http.client
import json
import shutil
import ssl

from lib.mesh.rig import REFUSED

NGINX = "/usr/sbin/nginx"

_NGINX = """
daemon off; master_process off; pid {dir}/nginx.pid; error_log stderr;
events {{}}
http {{
  access_log off;
  client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy; fastcgi_temp_path {dir}/fastcgi;
  uwsgi_temp_path {dir}/uwsgi; scgi_temp_path {dir}/scgi;
  server {{ listen 127.0.0.1:8080; location / {{ proxy_pass http://{plain}; }} }}
  server {{
    listen 127.0.0.1:8443;
    location / {{
      proxy_pass https://{tls};
      proxy_ssl_certificate {certificate}; proxy_ssl_certificate_key {key};
      proxy_ssl_trusted_certificate {roots}; proxy_ssl_verify on;
      proxy_ssl_name {name}; proxy_ssl_server_name on;
    }}
  }}
}}
"""


def nginx(rig, namespace, **values):
    """nginx with its defaults, such as HTTP/1.0: 8080 leads to `plain`, and 8443 to `tls`, whose
    certificate must have `name`."""
    if shutil.which(NGINX) is None:
        raise RuntimeError(f"{NGINX} is missing: tools/setup installs it")
    directory = rig.directory / "nginx"
    directory.mkdir()
    config = directory / "nginx.conf"
    config.write_text(_NGINX.format(dir=directory, **values))
    return rig.start("nginx", namespace.command(NGINX, "-c", config))


def envoy(rig, namespace, *, address, port, certificate, key, roots, name, sni):
    """An Envoy whose port 8081 leads to address:port over TLS, with HTTP/2 if that is agreed on."""
    tls = {
        "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
        "sni": sni,
        "common_tls_context": {
            "alpn_protocols": ["h2", "http/1.1"],
            "tls_certificates": [
                {"certificate_chain": {"filename": str(certificate)}, "private_key": {"filename": str(key)}}
            ],
            "validation_context": {
                "trusted_ca": {"filename": str(roots)},
                "match_typed_subject_alt_names": [{"san_type": "DNS", "matcher": {"exact": name}}],
            },
        },
    }
    manager = {
        "@type": "type.googleapis.com/envoy.extensions.filters.network."
        "http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "ingress",
        "route_config": {
            "virtual_hosts": [
                {"name": "all", "domains": ["*"], "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "mesh"}}]}
            ]
        },
        "http_filters": [
            {
                "name": "router",
                "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"},
            }
        ],
    }
    at = {"socket_address": {"address": "127.0.0.1", "port_value": 8081}}
    options = {
        "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
            "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
            "auto_config": {},
        }
    }
    to = {"endpoint": {"address": {"socket_address": {"address": address, "port_value": port}}}}
    config = {
        "static_resources": {
            "listeners": [
                {
                    "name": "in",
                    "address": at,
                    "filter_chains": [{"filters": [{"name": "http", "typed_config": manager}]}],
                }
            ],
            "clusters": [
                {
                    "name": "mesh",
                    "typed_extension_protocol_options": options,
                    "load_assignment": {"cluster_name": "mesh", "endpoints": [{"lb_endpoints": [to]}]},
                    "transport_socket": {"name": "tls", "typed_config": tls},
                }
            ],
        }
    }
    file = rig.directory / "gateway-envoy.json"
    file.write_text(json.dumps(config))
    program = rig.programs.reachable(rig.programs.envoy, rig.directory)
    return rig.start(
        "gateway-envoy", namespace.command(program, "-c", file, "--disable-hot-restart", "--concurrency", "1")
    )


def ask(namespace, address, port, path="/", headers=None):
    """(status, body) of a plain-text request, or (REFUSED, how)."""
    try:
        return namespace.http(address, port, "GET", path, headers)
    except ConnectionError as closed:
        return REFUSED, repr(closed)


def ask_tls(namespace, address, port, sni, identity=None, alpn=("http/1.1",)):
    """(status, body) over TLS, or (REFUSED, how). `identity`: (certificate file, key file)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if alpn:
        context.set_alpn_protocols(list(alpn))
    if identity:
        context.load_cert_chain(*identity)
    connection = http.client.HTTPConnection(sni, port, timeout=5)
    connection.auto_open = 0
    try:
        plain = namespace.connect(address, port, timeout=5)
        connection.sock = context.wrap_socket(plain, server_hostname=sni)
        connection.request("GET", "/", headers={"Host": sni})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except (ConnectionError, ssl.SSLError) as refused:
        return REFUSED, repr(refused)
    finally:
        connection.close()
