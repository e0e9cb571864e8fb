#include "table_spec.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <memory>
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

template <class T>
std::shared_ptr<const T> shared(T value) {
  return std::make_shared<const T>(std::move(value));
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

  osm::SpecSnapshot next;
  next.synced = true;
  next.namespaces = {ns_};
  next.services = osm::Table<osm::Service>(std::move(fresh.services));
  next.targets = osm::Table<osm::smi::TrafficTarget>(std::move(fresh.targets));
  osm::smi::HttpMatch all;  // any path, method and header
  all.name = "all";
  next.http_routes =
      next.http_routes.with(shared(osm::smi::HttpRouteGroup{{ns_, kAnyRequest}, {all}}));
  osm::SharedList<osm::ServiceAccount> accounts;
  for (const osm::ServiceAccount& account : fresh.accounts) accounts.push_back(shared(account));
  next.accounts = osm::Table<osm::ServiceAccount>(std::move(accounts));
  publish(std::move(next), std::move(fresh.problems));  // unchanged rows keep their objects
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
  if (content.names.contains(name->name)) return refuse("service", "stands in the table twice");
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
  content.services.push_back(shared(std::move(service)));
  content.names.insert(name->name);
  osm::smi::TrafficTarget target;
  target.name = {ns_, name->name};
  target.destination = {ns_, cells[3]};
  target.rules = {{osm::smi::RouteKind::kHttpRouteGroup, kAnyRequest, {"all"}}};
  std::set<std::string> callers;  // in order, each once
  for (const std::string& caller : split(cells[4], ' '))
    if (!caller.empty()) callers.insert(caller);
  for (const std::string& caller : callers) target.sources.push_back({ns_, caller});
  if (callers.empty()) return;
  content.accounts.insert(target.destination);
  content.accounts.insert(target.sources.begin(), target.sources.end());
  content.targets.push_back(shared(std::move(target)));
}

}  // namespace vendor
