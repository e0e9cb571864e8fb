// The file of --providers.
#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <functional>
#include <map>
#include <set>
#include <utility>

#include "base/read_file.hpp"
#include "osm/remote/provider.hpp"
#include "remote/channel.hpp"

namespace osm::inline v1::remote {
namespace {

constexpr std::size_t kMaxProvidersFile = 1024 * 1024;
constexpr std::size_t kMaxProviders = 100;

// Reads one node; throws Error, which read_providers_file() catches.
class FileReader {
 public:
  explicit FileReader(const std::string& path) : path_(path) {}

  std::vector<RemoteProviderOptions> read(const YAML::Node& root) const {
    if (!root.IsSequence())
      refuse(root, "", "must be a list of providers, each with name, address and allow");
    if (root.size() > kMaxProviders) refuse(root, "", "has more than 100 providers");
    std::vector<RemoteProviderOptions> out;
    std::set<std::string> names;
    for (const YAML::Node& entry : root) {
      RemoteProviderOptions provider = read_provider(entry, fmt::format("[{}]", out.size()));
      if (!names.insert(provider.name).second)
        refuse(entry, fmt::format("[{}].name", out.size()),
               "'" + provider.name + "' is the name of two providers; give each its own");
      if (const Status valid = check_options(provider); !valid.ok())
        refuse(entry, fmt::format("[{}]", out.size()), valid.error().message);
      out.push_back(std::move(provider));
    }
    return out;
  }

 private:
  using Field = std::function<void(const YAML::Node& value, const std::string& field)>;

  [[noreturn]] void refuse(const YAML::Node& at, const std::string& field,
                           const std::string& cause) const {
    throw Error{ErrorCode::kInvalidField, fmt::format("{}:{}: {}{}{}", path_, at.Mark().line + 1,
                                                      field, field.empty() ? "" : ": ", cause)};
  }

  void read_map(const YAML::Node& map, const std::string& field,
                const std::map<std::string, Field>& fields) const {
    if (!map.IsMap()) refuse(map, field, "must be a map");
    std::string known;
    for (const auto& [name, read] : fields) known += (known.empty() ? "" : ", ") + name;
    std::set<std::string> seen;
    for (const auto& member : map) {
      const std::string name = member.first.IsScalar() ? member.first.Scalar() : "";
      const auto at = fields.find(name);
      if (at == fields.end())
        refuse(member.first, field + '.' + name, "no such field; known here: " + known);
      if (!seen.insert(name).second) refuse(member.first, field + '.' + name, "is there twice");
      at->second(member.second, field + '.' + name);
    }
  }

  Field text(std::string& into) const {
    return [this, &into](const YAML::Node& value, const std::string& field) {
      if (!value.IsScalar()) refuse(value, field, "must be a text");
      into = value.Scalar();
    };
  }

  RemoteProviderOptions read_provider(const YAML::Node& entry, const std::string& field) const {
    RemoteProviderOptions out;
    read_map(
        entry, field,
        {{"name", text(out.name)},
         {"address", text(out.address)},
         {"user", text(out.user)},
         {"caFile", text(out.ca_file)},
         {"certificateFile", text(out.certificate_file)},
         {"keyFile", text(out.key_file)},
         {"serverName", text(out.server_name)},
         {"required",
          [&](const YAML::Node& value, const std::string& at) {
            if (!value.IsScalar() || (value.Scalar() != "true" && value.Scalar() != "false"))
              refuse(value, at, "must be true or false");
            out.required = value.Scalar() == "true";
          }},
         {"allow", [&](const YAML::Node& value, const std::string& at) {
            if (!value.IsSequence())
              refuse(value, at, "must be a list of {namespace, serviceAccounts}");
            for (const YAML::Node& each : value)
              out.allow.push_back(read_allowed(each, fmt::format("{}[{}]", at, out.allow.size())));
          }}});
    return out;
  }

  AllowedAccounts read_allowed(const YAML::Node& entry, const std::string& field) const {
    AllowedAccounts out;
    read_map(entry, field,
             {{"namespace", text(out.ns)},
              {"serviceAccounts", [&](const YAML::Node& value, const std::string& at) {
                 // Null is not "all": somebody who deleted the last name does not mean that.
                 if (!value.IsSequence())
                   refuse(value, at,
                          "must be a list of names; leave the field out to allow all "
                          "accounts of the namespace");
                 out.accounts.emplace();
                 for (const YAML::Node& each : value) {
                   std::string account;
                   text(account)(each, at);
                   if (!is_dns_subdomain(account))
                     refuse(each, at, "'" + account + "' is no name of a ServiceAccount");
                   out.accounts->push_back(std::move(account));
                 }
               }}});
    if (out.ns.empty()) refuse(entry, field + ".namespace", "required");
    return out;
  }

  const std::string& path_;
};

}  // namespace

Result<std::vector<RemoteProviderOptions>> read_providers_file(const std::string& path) {
  OSM_TRY(const std::string text, read_file(path, kMaxProvidersFile));
  try {
    return FileReader(path).read(YAML::Load(text));
  } catch (const Error& fault) {
    return fault;
  } catch (const YAML::Exception& fault) {
    return Error{ErrorCode::kInvalidSyntax,
                 fmt::format("{}:{}: {}", path, fault.mark.line + 1, fault.msg)};
  }
}

}  // namespace osm::inline v1::remote
