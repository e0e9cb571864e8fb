#include "table_spec.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <set>
#include <sstream>
#include <utility>

#include "osm/values/endpoint.hpp"

namespace vendor {
namespace {

constexpr const char* kAnyRequest = "any-request";

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

// The old pointer where the value is the same, so that readers see at once what is not new.
template <class T>
void keep_unchanged(const std::map<std::string, std::shared_ptr<const T>>& before,
                    std::map<std::string, std::shared_ptr<const T>>& after,
                    const osm::GroupKind& kind, const std::string& ns,
                    std::vector<osm::ObjectKey>& changed) {
  for (const auto& [name, value] : before)
    if (!after.contains(name)) changed.push_back({kind, ns, name});
  for (auto& [name, value] : after) {
    const auto old = before.find(name);
    if (old != before.end() && *old->second == *value) {
      value = old->second;
    } else {
      changed.push_back({kind, ns, name});
    }
  }
}

template <class T>
osm::SharedList<T> values(const std::map<std::string, std::shared_ptr<const T>>& table) {
  osm::SharedList<T> list;
  for (const auto& [name, value] : table) list.push_back(value);
  return list;
}

}  // namespace

osm::Status TableSpec::load(const std::string& path) {
  std::ifstream file(path);
  std::string row;
  if (!std::getline(file, row))
    return osm::Error{osm::ErrorCode::kUnreadableSource, path + ": cannot be read"};
  Content fresh;
  for (int line = 2; std::getline(file, row); ++line)
    if (!row.empty()) read_row(row, path, line, fresh);
  std::sort(fresh.problems.begin(), fresh.problems.end());

  std::vector<osm::ObjectKey> changed;
  {
    std::lock_guard lock(mutex_);
    changed = differences(content_, fresh);
    const bool silent = changed.empty() && synced_ && content_.problems == fresh.problems;
    content_ = std::move(fresh);
    synced_ = true;
    if (silent) return {};
  }
  changed_.notify(changed);  // without the lock: subscribers read back
  return {};
}

void TableSpec::read_row(const std::string& row, const std::string& path, int line,
                         Content& content) const {
  std::vector<std::string> cells = split(row, ',');
  cells.resize(5);
  const auto refuse = [&](const char* field, std::string cause) {
    content.problems.push_back({osm::ErrorCode::kInvalidField,
                                {osm::kinds::kService, ns_, cells[0]},
                                path,
                                line,
                                field,
                                std::move(cause)});
  };
  const auto name = osm::parse_service_name(ns_, cells[0]);
  if (!name.ok()) return refuse("service", name.error().message);
  if (content.services.contains(name->name)) return refuse("service", "stands in the table twice");
  unsigned port = 0;
  std::from_chars(cells[2].data(), cells[2].data() + cells[2].size(), port);
  if (port == 0 || port > 65535) return refuse("port", "must be a whole number from 1 to 65535");
  // The rules of an endpoint are those of a service's address and account, too.
  osm::Endpoint frontend;
  frontend.address = cells[1];
  frontend.port = osm::Port(port);
  frontend.identity = {ns_, cells[3]};
  const osm::Status valid = osm::check_endpoint(*name, frontend);
  if (!valid.ok()) return refuse("address, runs_as", valid.error().message);

  osm::Service service;
  service.name = *name;
  service.cluster_ip = cells[1];
  service.ports = {{"http", osm::Port(port), osm::Port(port), osm::Protocol::kHttp}};
  content.services[name->name] = std::make_shared<const osm::Service>(std::move(service));
  osm::smi::TrafficTarget target;
  target.name = {ns_, name->name};
  target.destination = {ns_, cells[3]};
  target.rules = {{osm::smi::RouteKind::kHttpRouteGroup, kAnyRequest, {"all"}}};
  std::set<std::string> callers;  // in order, each once
  for (const std::string& caller : split(cells[4], ' '))
    if (!caller.empty()) callers.insert(caller);
  for (const std::string& caller : callers) target.sources.push_back({ns_, caller});
  if (!callers.empty())
    content.targets[name->name] =
        std::make_shared<const osm::smi::TrafficTarget>(std::move(target));
}

std::vector<osm::ObjectKey> TableSpec::differences(const Content& before, Content& after) const {
  std::vector<osm::ObjectKey> changed;
  keep_unchanged(before.services, after.services, osm::kinds::kService, ns_, changed);
  keep_unchanged(before.targets, after.targets, osm::kinds::kTrafficTarget, ns_, changed);
  return changed;
}

osm::SharedList<osm::smi::HttpRouteGroup> TableSpec::list_http_traffic_specs() const {
  osm::smi::HttpMatch all;  // any path, method and header
  all.name = "all";
  return {std::make_shared<const osm::smi::HttpRouteGroup>(
      osm::smi::HttpRouteGroup{{ns_, kAnyRequest}, {all}})};
}

osm::SharedList<osm::smi::TrafficTarget> TableSpec::list_traffic_targets() const {
  std::lock_guard lock(mutex_);
  return values(content_.targets);
}

osm::SharedList<osm::Service> TableSpec::list_services() const {
  std::lock_guard lock(mutex_);
  return values(content_.services);
}

std::shared_ptr<const osm::Service> TableSpec::get_service(const osm::ServiceName& name) const {
  std::lock_guard lock(mutex_);
  const auto at = content_.services.find(name.name);
  return at == content_.services.end() || name.ns != ns_ ? nullptr : at->second;
}

std::vector<osm::ServiceAccount> TableSpec::list_service_accounts() const {
  std::lock_guard lock(mutex_);
  std::set<osm::ServiceAccount> accounts;
  for (const auto& [name, target] : content_.targets) {
    accounts.insert(target->destination);
    accounts.insert(target->sources.begin(), target->sources.end());
  }
  return {accounts.begin(), accounts.end()};
}

std::vector<osm::ServiceAccount> TableSpec::list_all_service_accounts() const {
  return list_service_accounts();
}

bool TableSpec::has_synced() const {
  std::lock_guard lock(mutex_);
  return synced_;
}

std::vector<osm::Problem> TableSpec::list_problems() const {
  std::lock_guard lock(mutex_);
  return content_.problems;
}

}  // namespace vendor
