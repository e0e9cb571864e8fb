"""The real control plane of OSM v1.2.4 on a cluster: its CRDs, its controller and its injector, as its
chart installs them. tools/setup --osm-v1 builds them."""

import pathlib
import sys

from lib.kube.node_agent import Image

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILT = ROOT / "build/tools/osm-v1"
SYSTEM, MESH, VERSION = "osm-system", "osm", "v1.2.4"
CA_SECRET, RELEASE = "osm-ca-bundle", "osm"
MUTATING, VALIDATING = "osm-webhook-osm", "osm-validator-mesh-osm"
_LABELS = {
    "app.kubernetes.io/name": "openservicemesh.io",
    "app.kubernetes.io/instance": MESH,
    "app.kubernetes.io/version": VERSION,
}


def check_tools():
    for program in ("osm-controller", "osm-injector"):
        if not (BUILT / "bin" / program).exists():
            sys.exit(f"{BUILT / 'bin' / program} is missing: tools/setup --osm-v1 builds it")


def images(envoy):
    def daemon(name):
        return Image([f"/{name}"], files={f"/{name}": BUILT / "bin" / name}, user=1000)

    return {
        "openservicemesh/osm-controller": daemon("osm-controller"),
        "openservicemesh/osm-injector": daemon("osm-injector"),
        "openservicemesh/init": Image(["/bin/sh"]),
        "envoyproxy/envoy": Image(["envoy"], files={"/image/bin/envoy": envoy}),
    }


def _rights():
    """Those of the chart, of groups that the rig's cluster has."""

    def rule(groups, resources, verbs):
        return {"apiGroups": groups, "resources": resources, "verbs": verbs}

    look = ["list", "get", "watch"]
    change = look + ["create", "update", "patch"]
    return [
        rule(["apps"], ["daemonsets", "deployments", "replicasets", "statefulsets"], look),
        rule(["networking.k8s.io"], ["ingresses"], look),
        rule(["batch"], ["jobs"], look),
        rule([""], ["endpoints", "namespaces", "pods", "services", "secrets", "configmaps", "serviceaccounts"], look),
        rule([""], ["events"], ["create", "watch", "patch"]),
        rule([""], ["secrets"], ["create", "update", "delete", "patch"]),
        rule([""], ["configmaps"], ["create", "update"]),
        rule(
            ["admissionregistration.k8s.io"],
            ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
            change,
        ),
        rule(["apiextensions.k8s.io"], ["customresourcedefinitions"], change),
        rule(["config.openservicemesh.io"], ["meshconfigs", "meshrootcertificates"], change + ["delete"]),
        rule(["split.smi-spec.io"], ["trafficsplits"], look),
        rule(["access.smi-spec.io"], ["traffictargets"], look),
        rule(["specs.smi-spec.io"], ["httproutegroups", "tcproutes"], look),
        rule(
            ["policy.openservicemesh.io"], ["egresses", "ingressbackends", "retries", "upstreamtrafficsettings"], look
        ),
        rule(["policy.openservicemesh.io"], ["ingressbackends/status", "upstreamtrafficsettings/status"], ["update"]),
    ]


def mesh_config(permissive=False, egress=False):
    """The preset of the chart, but for statistics, which need WebAssembly that Go modules lack."""
    return {
        "apiVersion": "config.openservicemesh.io/v1alpha2",
        "kind": "MeshConfig",
        "metadata": {"name": "osm-mesh-config", "namespace": SYSTEM},
        "spec": {
            "sidecar": {
                "enablePrivilegedInitContainer": False,
                "logLevel": "error",
                "maxDataPlaneConnections": 0,
                "configResyncInterval": "0s",
                "localProxyMode": "Localhost",
                "tlsMinProtocolVersion": "TLSv1_2",
                "tlsMaxProtocolVersion": "TLSv1_3",
            },
            "traffic": {
                "enableEgress": egress,
                "enablePermissiveTrafficPolicyMode": permissive,
                "outboundPortExclusionList": [],
                "inboundPortExclusionList": [],
                "outboundIPRangeExclusionList": [],
                "outboundIPRangeInclusionList": [],
                "networkInterfaceExclusionList": [],
            },
            "observability": {"enableDebugServer": False, "osmLogLevel": "info", "tracing": {"enable": False}},
            "certificate": {"serviceCertValidityDuration": "24h", "certKeyBitSize": 2048},
            "featureFlags": {
                "enableWASMStats": False,
                "enableEgressPolicy": True,
                "enableSnapshotCacheMode": False,
                "enableAsyncProxyServiceMapping": False,
                "enableIngressBackendPolicy": True,
                "enableEnvoyActiveHealthChecks": False,
                "enableRetryPolicy": False,
            },
        },
    }


def _deployment(name, pod_name_variable, path, ports, arguments, env):
    probe = {"httpGet": {"path": path, "port": 9091}, "periodSeconds": 1}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": SYSTEM, "labels": {**_LABELS, "app": name}},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {**_LABELS, "app": name}},
                "spec": {
                    "serviceAccountName": RELEASE,
                    "containers": [
                        {
                            "name": name,
                            "image": f"openservicemesh/{name}:{VERSION}",
                            "command": [f"/{name}"],
                            "args": [
                                "--verbosity",
                                "info",
                                "--osm-namespace",
                                SYSTEM,
                                "--osm-version",
                                VERSION,
                                "--mesh-name",
                                MESH,
                                "--ca-bundle-secret-name",
                                CA_SECRET,
                                "--certificate-manager",
                                "tresor",
                                "--trust-domain",
                                "cluster.local",
                                *arguments,
                            ],
                            "env": [
                                {"name": pod_name_variable, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                                *env,
                            ],
                            "ports": [{"containerPort": p} for p in ports],
                            "readinessProbe": probe,
                        }
                    ],
                },
            },
        },
    }


def _service(name, app, *ports):
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": SYSTEM, "labels": _LABELS},
        "spec": {"selector": {"app": app}, "ports": [{"name": f"p{p}", "port": p, "targetPort": p} for p in ports]},
    }


def install(cluster, **settings):
    """Until pods are injected. `settings`: of mesh_config()."""
    check_tools()
    api = cluster.api
    cluster.kubectl("apply", "-f", BUILT / "crds")
    cluster.kubectl("wait", "--for=condition=Established", "crd", "--all")
    rights, subject = {"kind": "ClusterRole", "name": RELEASE}, {"kind": "ServiceAccount", "name": RELEASE}
    group = "rbac.authorization.k8s.io"
    api.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": RELEASE, "namespace": SYSTEM}},
        {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": {"name": RELEASE}, "rules": _rights()},
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": RELEASE},
            "roleRef": {"apiGroup": group, **rights},
            "subjects": [{**subject, "namespace": SYSTEM}],
        },
        mesh_config(**settings),
        _service("osm-controller", "osm-controller", 15128, 9091),
        _service("osm-validator", "osm-controller", 9093),
        _service("osm-injector", "osm-injector", 9090),
        _deployment(
            "osm-controller",
            "CONTROLLER_POD_NAME",
            "/health/ready",
            [15128, 9091, 9093],
            [
                "--osm-service-account",
                RELEASE,
                "--validator-webhook-config",
                VALIDATING,
                "--validate-traffic-target=true",
            ],
            [],
        ),
        _deployment(
            "osm-injector",
            "INJECTOR_POD_NAME",
            "/healthz",
            [9090, 9091],
            ["--webhook-config-name", MUTATING, "--webhook-timeout", "20", "--osm-container-pull-policy=IfNotPresent"],
            [
                {"name": "OSM_DEFAULT_ENVOY_IMAGE", "value": "envoyproxy/envoy:v1.22.2"},
                {"name": "OSM_DEFAULT_INIT_CONTAINER_IMAGE", "value": f"openservicemesh/init:{VERSION}"},
            ],
        ),
    )
    for name in ("osm-controller", "osm-injector"):
        api.wait_for(
            "is available", "Deployment", SYSTEM, name, lambda d: d.get("status", {}).get("availableReplicas") == 1, 60
        )
    api.wait_for("is there", "MutatingWebhookConfiguration", None, MUTATING, lambda _: True, 60)
