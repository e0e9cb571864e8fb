"""The mesh's objects as Python values, for tests that make their mesh as they go."""


def _object(api_version, kind, ns, name, **rest):
    metadata = {"name": name}
    if ns:
        metadata["namespace"] = ns
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest}


def namespace(name):
    made = _object("v1", "Namespace", "", name)
    made["metadata"]["labels"] = {"openservicemesh.io/monitored-by": "osm"}
    return made


def account(ns, name):
    return _object("v1", "ServiceAccount", ns, name)


def service(ns, name, cluster_ip, port, target_port=None, protocol="http", selector=None):
    return _object("v1", "Service", ns, name, spec={
        "clusterIP": cluster_ip,
        "selector": selector or {"app": name},
        "ports": [{"name": protocol, "port": port, "targetPort": target_port or port,
                   "appProtocol": protocol}]})


def machine(ns, name, address, service_account, labels=None, uuid=None):
    made = _object("workload.openservicemesh.io/v1alpha1", "VirtualMachine", ns, name,
                   spec={"address": address, "serviceAccount": service_account})
    made["metadata"]["labels"] = labels or {"app": name}
    if uuid:
        made["spec"]["proxyUUID"] = uuid
    return made


def routes(ns, name, **matches):
    """routes("shop", "r", books={"pathRegex": "/books", "methods": ["GET"]})"""
    return _object("specs.smi-spec.io/v1alpha4", "HTTPRouteGroup", ns, name,
                   spec={"matches": [{"name": m, **rule} for m, rule in matches.items()]})


def tcp_route(ns, name, *ports):
    return _object("specs.smi-spec.io/v1alpha4", "TCPRoute", ns, name,
                   spec={"matches": {"ports": list(ports)}})


def target(ns, name, destination, sources, *rules):
    """`sources`: (namespace, account) pairs; `rules`: ("HTTPRouteGroup", name, [match...])."""
    return _object("access.smi-spec.io/v1alpha3", "TrafficTarget", ns, name, spec={
        "destination": {"kind": "ServiceAccount", "name": destination, "namespace": ns},
        "sources": [{"kind": "ServiceAccount", "name": a, "namespace": n} for n, a in sources],
        "rules": [{"kind": kind, "name": route, **({"matches": matches} if matches else {})}
                  for kind, route, matches in rules]})


def split(ns, name, apex, **weights):
    return _object("split.smi-spec.io/v1alpha2", "TrafficSplit", ns, name, spec={
        "service": apex,
        "backends": [{"service": s.replace("_", "-"), "weight": w} for s, w in weights.items()]})


def mesh_config(permissive=False, egress=False):
    return _object("config.openservicemesh.io/v1alpha2", "MeshConfig", "osm-system",
                   "osm-mesh-config", spec={"traffic": {
                       "enablePermissiveTrafficPolicyMode": permissive, "enableEgress": egress}})
