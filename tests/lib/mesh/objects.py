"""The mesh's objects as Python values: the only builders, for a directory as for Kubernetes."""

MONITORED = {"openservicemesh.io/monitored-by": "osm"}


def _object(api_version, kind, ns, name, **rest):
    metadata = {"name": name}
    if ns:
        metadata["namespace"] = ns
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest}


def namespace(name, labels=None, annotations=None):
    """A namespace of the mesh; with `labels={}` outside of it."""
    made = _object("v1", "Namespace", "", name)
    made["metadata"]["labels"] = dict(MONITORED) if labels is None else labels
    if annotations:
        made["metadata"]["annotations"] = annotations
    return made


def account(ns, name):
    return _object("v1", "ServiceAccount", ns, name)


def service(ns, name, cluster_ip, port, target_port=None, protocol="http", selector=None, **spec):
    """`cluster_ip`: None when the API server is to choose it."""
    return _object(
        "v1",
        "Service",
        ns,
        name,
        spec={
            **({"clusterIP": cluster_ip} if cluster_ip else {}),
            "selector": {"app": name} if selector is None else selector,
            "ports": [
                {
                    "name": protocol,
                    "port": port,
                    "targetPort": target_port or port,
                    "protocol": "TCP",
                    "appProtocol": protocol,
                }
            ],
            **spec,
        },
    )


def machine(ns, name, address, service_account, labels=None, uuid=None):
    made = _object(
        "workload.openservicemesh.io/v1alpha1",
        "VirtualMachine",
        ns,
        name,
        spec={"address": address, "serviceAccount": service_account},
    )
    made["metadata"]["labels"] = labels or {"app": name}
    if uuid:
        made["spec"]["proxyUUID"] = uuid
    return made


def dns_resource(ns, name, dns_name, service_account, labels, **spec):
    """Machines behind a DNS name."""
    return {
        "apiVersion": "workload.openservicemesh.io/v1alpha1",
        "kind": "DNSResource",
        "metadata": {"name": name, "namespace": ns, "labels": labels},
        "spec": {"name": dns_name, "serviceAccount": service_account, **spec},
    }


def routes(ns, name, **matches):
    """routes("shop", "r", books={"pathRegex": "/books", "methods": ["GET"]})"""
    return _object(
        "specs.smi-spec.io/v1alpha4",
        "HTTPRouteGroup",
        ns,
        name,
        spec={"matches": [{"name": m, **rule} for m, rule in matches.items()]},
    )


def tcp_route(ns, name, *ports):
    return _object("specs.smi-spec.io/v1alpha4", "TCPRoute", ns, name, spec={"matches": {"ports": list(ports)}})


def target(ns, name, destination, sources, *rules):
    """`sources`: (namespace, account) pairs; `rules`: ("HTTPRouteGroup", name, [match...])."""
    return _object(
        "access.smi-spec.io/v1alpha3",
        "TrafficTarget",
        ns,
        name,
        spec={
            "destination": {"kind": "ServiceAccount", "name": destination, "namespace": ns},
            "sources": [{"kind": "ServiceAccount", "name": a, "namespace": n} for n, a in sources],
            "rules": [
                {"kind": kind, "name": route, **({"matches": matches} if matches else {})}
                for kind, route, matches in rules
            ],
        },
    )


def split(ns, name, apex, **weights):
    return _object(
        "split.smi-spec.io/v1alpha2",
        "TrafficSplit",
        ns,
        name,
        spec={"service": apex, "backends": [{"service": s.replace("_", "-"), "weight": w} for s, w in weights.items()]},
    )


def retry(ns, name, source, destinations, **policy):
    """`destinations`: (namespace, Service) pairs. `policy`: fields in place of the usual ones."""
    return _object(
        "policy.openservicemesh.io/v1alpha1",
        "Retry",
        ns,
        name,
        spec={
            "source": {"kind": "ServiceAccount", "namespace": ns, "name": source},
            "destinations": [{"kind": "Service", "namespace": n, "name": s} for n, s in destinations],
            "retryPolicy": {
                "retryOn": "5xx",
                "perTryTimeout": "1s",
                "numRetries": 3,
                "retryBackoffBaseInterval": "5ms",
                **policy,
            },
        },
    )


def upstream_setting(ns, name, host, **spec):
    return _object(
        "policy.openservicemesh.io/v1alpha1", "UpstreamTrafficSetting", ns, name, spec={"host": host, **spec}
    )


def egress(ns, name, sources, ports, hosts=(), addresses=(), groups=(), setting=None):
    """`sources`: accounts of `ns`; `ports`: {number: protocol}; `groups`: HTTPRouteGroups."""
    matches = [("specs.smi-spec.io/v1alpha4", "HTTPRouteGroup", group) for group in groups]
    if setting:
        matches.append(("policy.openservicemesh.io/v1alpha1", "UpstreamTrafficSetting", setting))
    return _object(
        "policy.openservicemesh.io/v1alpha1",
        "Egress",
        ns,
        name,
        spec={
            "sources": [{"kind": "ServiceAccount", "namespace": ns, "name": a} for a in sources],
            "hosts": list(hosts),
            "ipAddresses": list(addresses),
            "ports": [{"number": n, "protocol": p} for n, p in ports.items()],
            "matches": [{"apiGroup": g, "kind": k, "name": n} for g, k, n in matches],
        },
    )


def ingress_backend(ns, name, backends, *sources):
    """`backends`: {(service, target port): {"protocol": ..., **tls}}; `sources`: (kind, name) or
    (kind, name, namespace)."""
    made = []
    for (service, port), rule in backends.items():
        tls = {key: value for key, value in rule.items() if key != "protocol"}
        made.append(
            {"name": service, "port": {"number": port, "protocol": rule["protocol"]}, **({"tls": tls} if tls else {})}
        )
    return _object(
        "policy.openservicemesh.io/v1alpha1",
        "IngressBackend",
        ns,
        name,
        spec={"backends": made, "sources": [dict(zip(("kind", "name", "namespace"), source)) for source in sources]},
    )


def telemetry(ns, name, selector=None, **access_log):
    """`access_log`: its fields: format, openTelemetry."""
    return _object(
        "policy.openservicemesh.io/v1alpha1",
        "Telemetry",
        ns,
        name,
        spec={**({"selector": selector} if selector else {}), "accessLog": access_log},
    )


def extension_service(ns, name, host, port, **fields):
    return _object(
        "config.openservicemesh.io/v1alpha2", "ExtensionService", ns, name, spec={"host": host, "port": port, **fields}
    )


def mesh_config(permissive=False, egress=False, **sections):
    """`sections` of the spec, beside or in place of `traffic`."""
    return _object(
        "config.openservicemesh.io/v1alpha2",
        "MeshConfig",
        "osm-system",
        "osm-mesh-config",
        spec={"traffic": {"enablePermissiveTrafficPolicyMode": permissive, "enableEgress": egress}, **sections},
    )


def denylist(name, accounts=(), proxies=(), ns="osm-system", reason=""):
    """`accounts`: (namespace, account) pairs."""
    return _object(
        "workload.openservicemesh.io/v1alpha1",
        "Denylist",
        ns,
        name,
        spec={
            "serviceAccounts": [{"namespace": n, "name": a} for n, a in accounts],
            "proxyUUIDs": list(proxies),
            **({"reason": reason} if reason else {}),
        },
    )


def root(name, role="active"):
    return _object(
        "config.openservicemesh.io/v1alpha2",
        "MeshRootCertificate",
        "osm-system",
        name,
        spec={
            "role": role,
            "trustDomain": "cluster.local",
            "provider": {"tresor": {"ca": {"secretRef": {"name": f"{name}-ca", "namespace": "osm-system"}}}},
        },
    )


def shop(address="10.9.0.1"):
    """Two machines, and the policy by which shop/web may read the books of shop/api, the Service at
    `address`."""
    return [
        namespace("shop"),
        account("shop", "web"),
        account("shop", "api"),
        service("shop", "api", address, 80, 8080),
        machine("shop", "api-1", "10.1.0.2", "api", {"app": "api"}),
        machine("shop", "web-1", "10.1.0.3", "web", {"app": "web"}),
        routes("shop", "books", read={"pathRegex": "/books.*", "methods": ["GET"]}),
        books_for("web-api", "web", "api"),
    ]


def books_for(name, reader, owner):
    """A TrafficTarget of the shop: one account may read the books of another."""
    return target("shop", name, owner, [("shop", reader)], ("HTTPRouteGroup", "books", ["read"]))
