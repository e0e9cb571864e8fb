// Pods as tests write them: tests/data/inject/pods/<case>/pod.yaml. Beside the Pod a case may
// have its Namespace, the MeshConfig, `native: false` for an API server before 1.29, and
// `cni: true` where a CNI plugin installs the interception.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>

#include <boost/json.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include "inject/pod_bootstrap.hpp"
#include "inject/pod_patch.hpp"
#include "lib/places.hpp"
#include "spec/decode.hpp"
#include "spec/yaml.hpp"

namespace osm::inject_test {

namespace json = boost::json;

inline const ProxyId kProxy{"6f2c1f0e-5c6b-4d6e-9f55-0d6d8a3a9c11"};

struct PodCase {
  json::object pod;
  inject::InjectionNamespace ns{"shop",
                                {{"openservicemesh.io/monitored-by", "osm"}},
                                {{"openservicemesh.io/sidecar-injection", "enabled"}}};
  MeshConfig config;
  bool native = true;
  bool cni = false;

  inject::PodPatchInput input() const {
    return {.pod = pod,
            .ns = ns.name,
            .proxy_id = kProxy,
            .hook_key = "the-hook-key",
            .config = config,
            .images = {.envoy = "envoy:1", .init_container = "init:1"},
            .native_sidecars = native,
            .cni = cni,
            .metrics = inject::wants_metrics(ns).value_or(false)};
  }
  inject::PatchedPod patched() const {
    auto patched = inject::patch_pod(input());
    REQUIRE_MESSAGE(patched.ok(), patched.error().text());
    return *std::move(patched);
  }
  std::string failure() const {
    const auto patched = inject::patch_pod(input());
    REQUIRE_FALSE(patched.ok());
    return patched.error().message;
  }
};

inline std::map<std::string, std::string> text_map(const json::value* value) {
  std::map<std::string, std::string> map;
  if (value == nullptr) return map;
  for (const auto& [key, text] : value->as_object()) map[key] = std::string(text.as_string());
  return map;
}

inline MeshConfig mesh_config_of(const json::object& object) {
  Object config;
  config.key = {kinds::kMeshConfig, "osm-system", "osm-mesh-config"};
  config.api_version = "config.openservicemesh.io/v1alpha2";
  config.document = std::make_shared<const json::value>(object);
  const auto decoded = spec::decode_mesh_config(config);
  REQUIRE_MESSAGE(decoded.value.has_value(), decoded.problems.front().text());
  return *decoded.value;
}

inline PodCase pod_case(const std::string& yaml) {
  PodCase result;
  for (const spec::YamlResult& document : spec::parse_yaml(yaml)) {
    REQUIRE_MESSAGE(std::holds_alternative<spec::YamlDocument>(document), yaml);
    const json::object& object = std::get<spec::YamlDocument>(document).value.as_object();
    const json::value* kind = object.if_contains("kind");
    if (const json::value* native = object.if_contains("native")) {
      result.native = native->as_bool();
    } else if (const json::value* cni = object.if_contains("cni")) {
      result.cni = cni->as_bool();
    } else if (kind != nullptr && *kind == "MeshConfig") {
      result.config = mesh_config_of(object);
    } else if (kind != nullptr && *kind == "Namespace") {
      const json::object& metadata = object.at("metadata").as_object();
      result.ns = {std::string(metadata.at("name").as_string()),
                   text_map(metadata.if_contains("labels")),
                   text_map(metadata.if_contains("annotations"))};
    } else {
      result.pod = object;
    }
  }
  return result;
}

inline std::filesystem::path pods_directory() {
  return testing::source_dir() / "tests/data/inject/pods";
}

inline PodCase golden_pod(const std::string& name) {
  std::ifstream file(pods_directory() / name / "pod.yaml");
  std::stringstream text;
  text << file.rdbuf();
  REQUIRE_MESSAGE(!text.str().empty(), name);
  return pod_case(text.str());
}

inline std::vector<std::string> golden_pods() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(pods_directory()))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

inline certificate::Certificate proxy_certificate(const std::string& common_name) {
  certificate::Certificate certificate;
  certificate.subject.common_name = CommonName{common_name};
  certificate.chain_pem = "-----the chain-----\n";
  certificate.private_key = certificate::PrivateKey{"-----the key-----\n"};
  return certificate;
}

inline std::vector<inject::BootstrapFile> bootstrap_files(
    const inject::PatchedPod& patched, const std::string& cluster_domain = "cluster.local") {
  const certificate::Certificate certificate =
      proxy_certificate(kProxy.str() + '.' + patched.account.ns);
  const std::string roots = "-----the roots-----\n";
  auto files = inject::pod_bootstrap({.certificate = certificate,
                                      .trust_bundle_pem = roots,
                                      .account = patched.account,
                                      .trust_domain = TrustDomain{"cluster.local"}},
                                     patched.probes, "osm-system", cluster_domain);
  REQUIRE_MESSAGE(files.ok(), files.error().message);
  return *std::move(files);
}

inline std::string bootstrap_yaml(const inject::PatchedPod& patched,
                                  const std::string& cluster_domain = "cluster.local") {
  for (const inject::BootstrapFile& file : bootstrap_files(patched, cluster_domain))
    if (file.name == "bootstrap.yaml") return file.content;
  FAIL("no bootstrap.yaml");
  return {};
}

// Indented JSON; a text of several lines is a list of them, so that people can read it.
inline void print_json(std::string& out, const json::value& value, const std::string& indent = "") {
  const std::string deeper = indent + "  ";
  const auto items = [&](char open, char close, const auto& container, const auto& print) {
    out += open;
    const char* separator = "\n";
    for (const auto& item : container) {
      out += separator + deeper;
      print(item);
      separator = ",\n";
    }
    if (!container.empty()) out += '\n' + indent;
    out += close;
  };
  if (const auto* map = value.if_object()) {
    items('{', '}', *map, [&](const json::key_value_pair& member) {
      out += json::serialize(json::string(member.key())) + ": ";
      print_json(out, member.value(), deeper);
    });
  } else if (const auto* list = value.if_array()) {
    items('[', ']', *list, [&](const json::value& item) { print_json(out, item, deeper); });
  } else if (const auto* text = value.if_string();
             text != nullptr && text->find('\n') != json::string::npos) {
    json::array lines;
    std::istringstream stream{std::string(*text)};
    for (std::string line; std::getline(stream, line);) lines.emplace_back(line);
    print_json(out, lines, indent);
  } else {
    out += json::serialize(value);
  }
}

}  // namespace osm::inject_test
