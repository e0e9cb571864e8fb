#include "kubernetes/client/access.hpp"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "base/base64.hpp"
#include "base/read_file.hpp"

namespace osm::inline v1::kubernetes {
namespace {

// One user or cluster of a kubeconfig, read field by field. Every error names file and field.
class Section {
 public:
  Section(std::string file, std::string field, YAML::Node node, Author author)
      : file_(std::move(file)), field_(std::move(field)), node_(std::move(node)), author_(author) {}

  bool foreign() const { return author_ == Author::kOther; }

  Error refuse(std::string_view name, std::string_view cause,
               ErrorCode code = ErrorCode::kInvalidField) const {
    std::string text = file_ + ": " + field_;
    if (!name.empty()) text.append(field_.empty() ? "" : ".").append(name);
    return {code, text.append(": ").append(cause)};
  }

  // Null counts as absent.
  bool has(const char* name) const { return node_.IsMap() && node_[name] && !node_[name].IsNull(); }

  Section child(const char* name) const {
    return {file_, field_.empty() ? name : field_ + '.' + name,
            has(name) ? YAML::Node(node_[name]) : YAML::Node(), author_};
  }

  // Empty if it is absent.
  Result<std::string> text(const char* name) const {
    if (!has(name)) return std::string();
    if (!node_[name].IsScalar()) return refuse(name, "must be a string");
    return node_[name].Scalar();
  }

  Result<bool> flag(const char* name) const {
    if (!has(name)) return false;
    bool value = false;
    if (!YAML::convert<bool>::decode(node_[name], value))
      return refuse(name, "must be true or false");
    return value;
  }

  // Relative to the kubeconfig's directory, like kubectl.
  Result<std::string> path(const char* name) const {
    OSM_TRY(auto value, text(name));
    if (value.empty()) return value;
    const std::filesystem::path file = std::filesystem::absolute(file_);
    // Others' files lie there, too: each bears the name of its kubeconfig.
    const std::string own = '.' + file.filename().string() + '.';
    if (foreign() && (!value.starts_with(own) || value.find('/') != std::string::npos))
      return refuse(name,
                    "a kubeconfig of another party may name no file of this machine; write "
                    "the content inline, or into a file beside the kubeconfig whose name "
                    "begins with " +
                        own);
    return (file.parent_path() / value).lexically_normal().string();
  }

  // Decoded base64; empty if it is absent.
  Result<std::string> data(const char* name) const {
    OSM_TRY(auto value, text(name));
    std::erase_if(value, [](char c) { return c == '\n' || c == '\r' || c == ' '; });
    auto bytes = from_base64(value);
    if (!bytes) return refuse(name, "is not base64; encode the PEM file with `base64 -w0`");
    return *std::move(bytes);
  }

  // The inline "<name>-data" or the file "<name>"; inline data takes precedence, like in kubectl.
  Result<PemSource> pem(const std::string& name) const {
    PemSource source;
    OSM_TRY(source.pem, data((name + "-data").c_str()));
    if (!source.pem.empty()) {
      if (source.pem.find("-----BEGIN ") == std::string::npos)
        return refuse(name + "-data",
                      "is not PEM in base64; encode a file that begins with "
                      "-----BEGIN with `base64 -w0`");
      return source;
    }
    OSM_TRY(source.path, path(name.c_str()));
    return source;
  }

  // The members of a list of {name, <member>} whose name is `name`.
  Result<Section> named(const char* list, const std::string& name, const char* member) const {
    std::string known;
    if (has(list) && node_[list].IsSequence()) {
      for (const YAML::Node& entry : node_[list]) {
        if (!entry.IsMap() || !entry["name"] || !entry["name"].IsScalar()) continue;
        const std::string found = entry["name"].Scalar();
        if (found == name)
          return Section(file_, std::string(list) + '[' + name + "]." + member,
                         entry[member] ? YAML::Node(entry[member]) : YAML::Node(), author_);
        known.append(known.empty() ? "" : ", ").append(found);
      }
    }
    return refuse(list, "has no \"" + name + "\"; it has " + (known.empty() ? "none" : known),
                  ErrorCode::kNotFound);
  }

  // Elements of a list; none if it is absent.
  YAML::Node list(const char* name) const { return has(name) ? node_[name] : YAML::Node(); }

 private:
  std::string file_;
  std::string field_;
  YAML::Node node_;
  Author author_;
};

Result<net::Address> address_of_host(const std::string& authority) {
  const bool has_port =
      authority.find(':', authority.rfind(']') == std::string::npos ? 0 : authority.rfind(']')) !=
      std::string::npos;
  return net::parse_address(has_port ? authority : authority + ":443");
}

Status read_cluster(const Section& cluster, Access& access) {
  OSM_TRY(const bool insecure, cluster.flag("insecure-skip-tls-verify"));
  if (insecure)
    return cluster.refuse("insecure-skip-tls-verify",
                          "is not supported: the server is always verified. Remove it and name the "
                          "cluster's CA in certificate-authority; if only the name differs, set "
                          "tls-server-name");
  if (cluster.has("proxy-url"))
    return cluster.refuse("proxy-url", "is not supported; reach the server directly");
  OSM_TRY(access.server, cluster.text("server"));
  while (access.server.ends_with('/')) access.server.pop_back();
  if (access.server.empty())
    return cluster.refuse("server", "required: the API server as https://HOST:PORT");
  constexpr std::string_view kScheme = "https://";
  if (!access.server.starts_with(kScheme))
    return cluster.refuse("server", "must begin with https://: credentials are sent over TLS only");
  const std::string rest = access.server.substr(kScheme.size());
  const auto slash = std::min(rest.find('/'), rest.size());
  access.base_path = rest.substr(slash);
  auto address = address_of_host(rest.substr(0, slash));
  if (!address || address->is_unix() || rest.find_first_of("@?# ") != std::string::npos)
    return cluster.refuse("server", "is not an address; write https://HOST:PORT");
  access.address = *std::move(address);
  OSM_TRY(access.tls_server_name, cluster.text("tls-server-name"));
  OSM_TRY(access.certificate_authority, cluster.pem("certificate-authority"));
  return {};
}

Result<ExecPlugin> read_exec(const Section& exec) {
  ExecPlugin plugin;
  OSM_TRY(plugin.api_version, exec.text("apiVersion"));
  if (plugin.api_version != "client.authentication.k8s.io/v1" &&
      plugin.api_version != "client.authentication.k8s.io/v1beta1")
    return exec.refuse("apiVersion",
                       "must be client.authentication.k8s.io/v1 or v1beta1; configure "
                       "the plugin for one of them");
  OSM_TRY(plugin.command, exec.text("command"));
  if (plugin.command.empty()) return exec.refuse("command", "required");
  if (plugin.command.find('/') != std::string::npos) {
    OSM_TRY(plugin.command, exec.path("command"));
  }
  OSM_TRY(const std::string interactive, exec.text("interactiveMode"));
  if (interactive == "Always")
    return exec.refuse("interactiveMode",
                       "is Always, and nobody is here to answer; use a plugin "
                       "that runs by itself");
  OSM_TRY(plugin.install_hint, exec.text("installHint"));
  OSM_TRY(plugin.provide_cluster_info, exec.flag("provideClusterInfo"));
  for (const YAML::Node& argument : exec.list("args")) {
    if (!argument.IsScalar()) return exec.refuse("args", "must be a list of strings");
    plugin.arguments.push_back(argument.Scalar());
  }
  for (const YAML::Node& variable : exec.list("env")) {
    if (!variable.IsMap() || !variable["name"] || !variable["value"] ||
        !variable["name"].IsScalar() || !variable["value"].IsScalar())
      return exec.refuse("env", "must be a list of {name, value}");
    plugin.environment.emplace_back(variable["name"].Scalar(), variable["value"].Scalar());
  }
  return plugin;
}

Status read_user(const Section& user, Access& access) {
  for (const char* removed : {"username", "password", "auth-provider"})
    if (user.has(removed))
      return user.refuse(removed,
                         "is no longer supported by Kubernetes; use a client certificate, "
                         "a token or an exec plugin");
  for (const char* other : {"as", "as-uid", "as-groups", "as-user-extra"})
    if (user.has(other))
      return user.refuse(other,
                         "is not supported: the mesh acts as itself; grant this user what "
                         "it needs");
  OSM_TRY(access.client_certificate, user.pem("client-certificate"));
  OSM_TRY(PemSource key, user.pem("client-key"));
  if (access.client_certificate.empty() != key.empty())
    return user.refuse(key.empty() ? "client-key" : "client-certificate",
                       "required, since the other half of the pair is given");
  access.client_key_file = key.path;
  if (!key.pem.empty())
    access.client_key = std::make_shared<const certificate::PrivateKey>(std::move(key.pem));
  // A file takes precedence over an inline token, like in kubectl: the file is renewed.
  OSM_TRY(access.token_file, user.path("tokenFile"));
  OSM_TRY(access.token, user.text("token"));
  if (access.token.find_first_of("\r\n") != std::string::npos)
    return user.refuse("token", "has a line break in it");
  if (!access.token_file.empty()) access.token.clear();
  if (user.has("exec")) {
    if (user.foreign())
      return user.refuse("exec",
                         "a kubeconfig of another party may run no program here; use a token of a "
                         "ServiceAccount of that cluster");
    if (!access.token.empty() || !access.token_file.empty() || !access.client_certificate.empty())
      return user.refuse("exec", "stands beside other credentials; keep one kind");
    OSM_TRY(access.exec, read_exec(user.child("exec")));
  }
  return {};
}

Result<Access> read_context(const Section& root, const std::string& path,
                            const std::string& wanted) {
  std::string name = wanted;
  if (name.empty()) {
    OSM_TRY(name, root.text("current-context"));
    if (name.empty())
      return root.refuse("current-context",
                         "is not set, and no context was named; set it with "
                         "`kubectl config use-context`");
  }
  OSM_TRY(const Section context, root.named("contexts", name, "context"));
  OSM_TRY(const std::string cluster_name, context.text("cluster"));
  if (cluster_name.empty()) return context.refuse("cluster", "required");
  OSM_TRY(const std::string user_name, context.text("user"));

  Access access;
  access.origin = path + " (context " + name + ')';
  access.foreign = root.foreign();
  OSM_TRY(const Section cluster, root.named("clusters", cluster_name, "cluster"));
  OSM_TRY(read_cluster(cluster, access));
  if (!user_name.empty()) {
    OSM_TRY(const Section user, root.named("users", user_name, "user"));
    OSM_TRY(read_user(user, access));
  }
  return access;
}

}  // namespace

Result<std::string> Access::read(const std::string& path) const {
  if (!foreign) return read_file(path, kMaxAccessFileBytes);
  const std::filesystem::path file(path);
  return read_file_beneath(file.parent_path().string(), file.filename().string(),
                           kMaxAccessFileBytes);
}

Result<Access> read_kubeconfig(const std::string& path, const std::string& context, Author author) {
  OSM_TRY(const std::string text, read_file(path, kMaxAccessFileBytes));
  try {
    const YAML::Node node = YAML::Load(text);
    if (!node.IsMap())
      return Error{ErrorCode::kInvalidSyntax,
                   path + ": is no kubeconfig; it must be a map with clusters, users and contexts"};
    return read_context(Section(path, "", node, author), path, context);
  } catch (const YAML::ParserException& fault) {
    return Error{ErrorCode::kInvalidSyntax,
                 path + ':' + std::to_string(fault.mark.line + 1) + ": is not YAML: " +
                     fault.msg.substr(0, fault.msg.find(": "))};  // what follows quotes the file
  } catch (const YAML::Exception&) {                              // its text might quote a value
    return Error{ErrorCode::kInvalidSyntax, path + ": is no kubeconfig"};
  }
}

Result<Access> read_service_account(const std::map<std::string, std::string>& environment,
                                    const std::string& directory) {
  const auto variable = [&](const char* name) {
    const auto at = environment.find(name);
    return at == environment.end() ? std::string() : at->second;
  };
  std::string host = variable("KUBERNETES_SERVICE_HOST");
  const std::string port = variable("KUBERNETES_SERVICE_PORT");
  if (host.empty() || port.empty())
    return Error{ErrorCode::kNotFound,
                 "this is not a pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not "
                 "set; name a kubeconfig"};
  if (host.find(':') != std::string::npos) host = '[' + host + ']';
  Access access;
  access.origin = directory;
  access.server = "https://" + host + ':' + port;
  OSM_TRY(access.address, net::parse_address(host + ':' + port));
  access.certificate_authority.path = directory + "/ca.crt";
  access.token_file = directory + "/token";
  for (const std::string& needed : {access.certificate_authority.path, access.token_file}) {
    if (const auto content = access.read(needed); !content.ok())
      return Error{
          ErrorCode::kNotFound,
          content.error().message + "; the pod's automountServiceAccountToken must not be false"};
  }
  return access;
}

}  // namespace osm::inline v1::kubernetes
