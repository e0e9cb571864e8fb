"""Objects of Kubernetes alone, as Python values; lib.mesh.objects has those of every mesh."""

from lib.mesh import objects

HTTP_IMAGE = "e2e/http-app:1"
SHELL_IMAGE = "e2e/shell:1"
PORT = 8080
account = objects.account


def namespace(name, **labels):
    return objects.namespace(name, labels)


def service(ns, name, port=PORT, target=None, selector=None, **spec):
    return objects.service(ns, name, None, port, target, selector=selector, **spec)


def http_container(name="app", version="v1", port=PORT, arguments=(), **more):
    return {
        "name": name,
        "image": HTTP_IMAGE,
        "args": ["--port", str(port), *arguments],
        "env": [{"name": "VERSION", "value": version}],
        "ports": [{"name": "http", "containerPort": port}],
        "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}, "periodSeconds": 1},
        **more,
    }


def shell_container(name, script, **more):
    return {"name": name, "image": SHELL_IMAGE, "args": ["-c", script], **more}


def pod_template(labels, containers, account="default", annotations=None, **spec):
    return {
        "metadata": {"labels": labels, "annotations": annotations or {}},
        "spec": {"serviceAccountName": account, "containers": containers, "terminationGracePeriodSeconds": 10, **spec},
    }


def deployment(ns, name, containers=None, replicas=1, account="default", annotations=None, labels=None, **spec):
    labels = {"app": name, **(labels or {})}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": ns},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "strategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
            "template": pod_template(labels, containers or [http_container()], account, annotations, **spec),
        },
    }


def job(ns, name, containers, **spec):
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": ns},
        "spec": {"backoffLimit": 2, "template": pod_template({"app": name}, containers, restartPolicy="Never", **spec)},
    }
