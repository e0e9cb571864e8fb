"""A pod's volumes as directories. Secrets, ConfigMaps and tokens are kept current as a kubelet
does it: a new directory, and one rename that shows all of it at once."""

import itertools
import os
import pathlib
import shutil
import time

from lib.kube.api import ApiError, decode


class NotThere(Exception):
    """An object that a volume or a variable needs; the pod waits for it."""


def field(pod, path):
    """The value of a downward API field path."""
    meta, spec, status = pod["metadata"], pod["spec"], pod.get("status", {})
    for kind in ("annotations", "labels"):
        if path.startswith(f"metadata.{kind}['"):
            return meta.get(kind, {}).get(path.split("'")[1], "")
        if path == f"metadata.{kind}":
            return "\n".join(f'{k}="{v}"' for k, v in sorted(meta.get(kind, {}).items()))
    values = {
        "metadata.name": meta["name"],
        "metadata.namespace": meta["namespace"],
        "metadata.uid": meta["uid"],
        "spec.nodeName": spec.get("nodeName", ""),
        "spec.serviceAccountName": spec.get("serviceAccountName", "default"),
        "status.podIP": status.get("podIP", ""),
        "status.hostIP": status.get("hostIP", ""),
        "status.podIPs": ",".join(i["ip"] for i in status.get("podIPs", [])),
    }
    if path not in values:
        raise NotThere(f"fieldPath {path} is not known here")
    return values[path]


def data_of(kind, obj):
    found = {k: decode(v) if kind == "Secret" else v.encode() for k, v in (obj.get("data") or {}).items()}
    return found | {k: decode(v) for k, v in (obj.get("binaryData") or {}).items()}


class Volumes:
    """`sources` answers find(kind, ns, name) with the object or None, and has an `api`."""

    def __init__(self, directory, pod, sources):
        self.directory, self.pod, self.sources = pathlib.Path(directory), pod, sources
        self.ns = pod["metadata"]["namespace"]
        self.group = (pod["spec"].get("securityContext") or {}).get("fsGroup")
        self._tokens, self._written = {}, {}
        self._generations = itertools.count()

    def make(self):
        """{name: path} of every volume. NotThere names what is waited for."""
        return {v["name"]: self._make(v) for v in self.pod["spec"].get("volumes") or []}

    def refresh(self):
        """Writes files again that changed in the API or will expire."""
        for volume in self.pod["spec"].get("volumes") or []:
            if any(kind in volume for kind in ("secret", "configMap", "projected")):
                try:
                    self._make(volume)
                except (NotThere, ApiError, OSError):
                    pass  # what is there stays

    def _make(self, volume):
        path = self.directory / volume["name"]
        if "hostPath" in volume:
            host = pathlib.Path(volume["hostPath"]["path"])
            if volume["hostPath"].get("type") == "DirectoryOrCreate":
                host.mkdir(parents=True, exist_ok=True)
            return host
        path.mkdir(parents=True, exist_ok=True)
        if "emptyDir" in volume:
            path.chmod(0o777)
        elif files := self._files(volume):
            self._write(path, files)
        return path

    def _files(self, volume):
        """{relative path: (content, mode)}."""
        if "projected" in volume:
            mode, files = volume["projected"].get("defaultMode", 0o644), {}
            for source in volume["projected"]["sources"]:
                files |= self._source(source, mode)
            return files
        kinds = ("secret", "configMap", "downwardAPI")
        source = {k: v for k, v in volume.items() if k in kinds}
        if not source:
            raise NotThere(f"volume {volume['name']}: {sorted(set(volume) - {'name'})} is not known here")
        return self._source(source, next(iter(source.values())).get("defaultMode", 0o644))

    def _source(self, source, mode):
        kind, wanted = next(iter(source.items()))
        if kind == "serviceAccountToken":
            return {wanted["path"]: (self._token(wanted), mode)}
        if kind == "downwardAPI":
            return {
                i["path"]: (field(self.pod, i["fieldRef"]["fieldPath"]).encode(), i.get("mode", mode))
                for i in wanted["items"]
            }
        kind = {"secret": "Secret", "configMap": "ConfigMap"}[kind]
        name = wanted.get("secretName") or wanted.get("name")
        found = self.sources.find(kind, self.ns, name)
        if found is None:
            if wanted.get("optional"):
                return {}
            raise NotThere(f'{kind.lower()} "{name}" not found')
        data = data_of(kind, found)
        if not wanted.get("items"):
            return {key: (value, mode) for key, value in data.items()}
        if missing := [i["key"] for i in wanted["items"] if i["key"] not in data]:
            raise NotThere(f'{kind.lower()} "{name}" has no {", ".join(missing)}')
        return {i["path"]: (data[i["key"]], i.get("mode", mode)) for i in wanted["items"]}

    def _token(self, wanted):
        key = wanted["path"], wanted.get("audience")
        seconds = wanted.get("expirationSeconds", 3600)
        token, renew = self._tokens.get(key, (None, 0))
        if time.monotonic() >= renew:
            meta = self.pod["metadata"]
            answer = self.sources.api.request(
                "POST",
                f"/api/v1/namespaces/{self.ns}/serviceaccounts/"
                f"{self.pod['spec'].get('serviceAccountName', 'default')}/token",
                {
                    "apiVersion": "authentication.k8s.io/v1",
                    "kind": "TokenRequest",
                    "spec": {
                        "expirationSeconds": seconds,
                        "audiences": [wanted["audience"]] if wanted.get("audience") else None,
                        "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]},
                    },
                },
            )
            token = answer["status"]["token"].encode()
            self._tokens[key] = token, time.monotonic() + seconds * 0.8
        return token

    def _write(self, path, files):
        if self._written.get(path) == files:
            return
        fresh = path / f"..{next(self._generations)}"
        for name, (content, mode) in files.items():
            file = fresh / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
            file.chmod(mode | (0o040 if self.group is not None else 0))
            if self.group is not None:
                os.chown(file, 0, self.group)
        fresh.chmod(0o755)
        old = os.readlink(path / "..data") if (path / "..data").is_symlink() else None
        (path / "..data_tmp").symlink_to(fresh.name)
        os.rename(path / "..data_tmp", path / "..data")
        top = {name.split("/")[0] for name in files}
        for name in top:
            if not (path / name).is_symlink():
                (path / name).symlink_to(f"..data/{name}")
        for entry in path.iterdir():
            if not entry.name.startswith("..") and entry.name not in top:
                entry.unlink()
        if old:
            shutil.rmtree(path / old, ignore_errors=True)
        self._written[path] = files
