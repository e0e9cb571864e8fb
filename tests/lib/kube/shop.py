"""The bookstore as Deployments. Its policies and Services are the example's own files."""

from lib.kube import kubeobjects as k8s
from lib.kube import mesh

FILES = mesh.ROOT / "examples/bookstore"
PORT = 14001
SHOP, LEDGER, WAREHOUSE = (f"bookstore.bookstore:{PORT}", "ledger.ledger:7000", f"bookwarehouse.bookwarehouse:{PORT}")
NAMESPACES = ("bookbuyer", "bookthief", "bookstore", "bookwarehouse", "ledger")
BUYER = "spiffe://cluster.local/ns/bookbuyer/sa/bookbuyer"


def container(*arguments, port=PORT, probe=True, **more):
    made = {
        "name": "app",
        "image": "e2e/bookstore",
        "args": [str(a) for a in arguments],
        "ports": [{"name": "http", "containerPort": port}],
        **more,
    }
    if probe:
        made["readinessProbe"] = {"httpGet": {"path": "/books-bought", "port": "http"}, "periodSeconds": 1}
    return made


def server(ns, name, *arguments, account=None, replicas=1, labels=None, drain=0):
    """`drain`: seconds that pods who still see it as an endpoint have, before it ends."""
    lifecycle = {"lifecycle": {"preStop": {"sleep": {"seconds": drain}}}} if drain else {}
    made = container("serve", "--listen", f"0.0.0.0:{PORT}", *arguments, **lifecycle)
    deployment = k8s.deployment(ns, name, [made], replicas, account or name)
    deployment["spec"]["selector"]["matchLabels"] = labels or {"app": name}
    deployment["spec"]["template"]["metadata"]["labels"] = labels or {"app": name}
    return deployment


def client(ns, name, command, target, interval_ms):
    return k8s.deployment(
        ns, name, [container(command, "--target", target, "--interval-ms", interval_ms, probe=False)], account=name
    )


def bookstore(version, replicas=1, drain=0):
    return server(
        "bookstore",
        f"bookstore-{version}",
        "--service",
        "bookstore",
        "--version",
        version,
        "--restock",
        WAREHOUSE,
        replicas=replicas,
        drain=drain,
        labels={"app": "bookstore", "version": version},
    )


def load(ns="bookbuyer"):
    """The load generator, writing its report into a volume."""
    made = k8s.deployment(
        ns,
        "load",
        [
            container(
                "load",
                "--http",
                SHOP,
                "--ledger",
                LEDGER,
                "--report",
                "/report/report.json",
                probe=False,
                volumeMounts=[{"name": "report", "mountPath": "/report"}],
            )
        ],
        account="bookbuyer",
        volumes=[{"name": "report", "emptyDir": {}}],
    )
    return made


def install(case, replicas=1, drain=0):
    """Everything but clients; with the example's own policies."""
    case.api.apply(*(mesh.namespace(ns) for ns in NAMESPACES))
    case.api.apply(
        *(k8s.account(ns, ns) for ns in NAMESPACES if ns != "bookstore"),
        *(k8s.account("bookstore", f"bookstore-{v}") for v in ("v1", "v2")),
    )
    for file in ("services", "access", "split"):
        case.cluster.kubectl("apply", "-f", FILES / f"mesh/{file}.yaml")
    ledger = k8s.deployment(
        "ledger", "ledger", [container("ledger", "--listen", "0.0.0.0:7000", port=7000, probe=False)], account="ledger"
    )
    case.api.apply(
        ledger,
        server("bookwarehouse", "bookwarehouse", "--service", "bookwarehouse"),
        *(bookstore(v, replicas, drain) for v in ("v1", "v2")),
    )
    for ns, name in (
        ("ledger", "ledger"),
        ("bookwarehouse", "bookwarehouse"),
        ("bookstore", "bookstore-v1"),
        ("bookstore", "bookstore-v2"),
    ):
        case.wait_until_available(ns, name)
