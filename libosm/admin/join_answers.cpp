#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "base/json.hpp"
#include "osm/net/admin_routes.hpp"

namespace osm::inline v1::net {
namespace {

namespace json = boost::json;

bool has(const json::array& list, const json::value& item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

json::array united(json::array list, const json::array& more) {
  for (const json::value& item : more)
    if (!has(list, item)) list.push_back(item);
  return list;
}

// Members of the same name: lists are united, counts added, a yes of one is a yes, and a text of
// one fills the empty text of another.
void merge(json::object& into, const json::object& other) {
  for (const auto& [name, value] : other) {
    json::value* mine = into.if_contains(name);
    if (mine == nullptr)
      into[name] = value;
    else if (mine->is_array() && value.is_array())
      *mine = united(std::move(mine->get_array()), value.get_array());
    else if (mine->is_bool() && value.is_bool())
      *mine = mine->get_bool() || value.get_bool();
    else if (mine->is_string() && mine->get_string().empty())
      *mine = value;
    else if (whole_number(*mine) && whole_number(value))
      *mine = *whole_number(*mine) + *whole_number(value);
  }
}

// Makes one of the objects of a list that have the same name.
void merge_by(json::object& answer, std::string_view list, std::string_view name) {
  std::map<std::string, json::object> by_name;
  for (const json::value& item : list_at(answer, list)) {
    const json::object* fields = item.if_object();
    if (fields == nullptr) continue;
    const auto [at, added] = by_name.emplace(text_at(*fields, name), *fields);
    if (!added) merge(at->second, *fields);
  }
  json::array merged;
  for (auto& [key, item] : by_name) merged.push_back(std::move(item));
  answer[list] = std::move(merged);
}

void name_replica(json::object& answer, std::string_view list, const std::string& replica) {
  json::value* items = answer.if_contains(list);
  if (items == nullptr || !items->is_array()) return;
  for (json::value& item : items->get_array())
    if (json::object* fields = item.if_object()) (*fields)["replica"] = replica;
}

// The pod of a controller, whose name ends with a random number after it.
std::string pod_of(const std::string& controller) {
  constexpr std::size_t kNumber = 17;  // '-' and 16 digits
  const std::size_t end = controller.size() - std::min(controller.size(), kNumber);
  const std::string_view number = std::string_view(controller).substr(end);
  const bool is_named_so = number.starts_with('-') &&
                           number.find_first_not_of("0123456789abcdef", 1) == std::string::npos;
  return is_named_so ? controller.substr(0, end) : controller;
}

// Each controller lists all proxies, and only of its own the time since which they are connected.
// Others know the proxies of a controller that did not answer.
void keep_own(json::object& answer, const std::string& replica,
              const std::set<std::string>& answered) {
  json::value* proxies = answer.if_contains("proxies");
  if (proxies == nullptr || !proxies->is_array()) return;
  json::array kept;
  for (json::value& proxy : proxies->get_array()) {
    json::object* fields = proxy.if_object();
    if (fields == nullptr) continue;
    const bool own = !text_at(*fields, "connected_at").empty();
    const std::string told = text_at(*fields, "replica");
    if (!own && (answered.contains(told) || answered.contains(pod_of(told)))) continue;
    (*fields)["replica"] = own ? replica : pod_of(told);
    kept.push_back(std::move(proxy));
  }
  *proxies = std::move(kept);
}

}  // namespace

std::string join_answers(const AdminRoute& route, const std::vector<ReplicaAnswer>& answers) {
  json::object joined;
  std::set<std::string> answered;
  for (const ReplicaAnswer& answer : answers) answered.insert(answer.replica);
  for (const ReplicaAnswer& answer : answers) {
    auto fields = parse_json_object(answer.body, answer.replica);
    if (!fields.ok()) continue;
    if (route.merge == AdminMerge::kOwnProxies) keep_own(*fields, answer.replica, answered);
    if (route.merge == AdminMerge::kUniteOfEach)
      name_replica(*fields, route.fields, answer.replica);
    merge(joined, *fields);
  }
  // A certificate is claimed if its proxy is connected to any controller.
  if (route.merge == AdminMerge::kOwnProxies) merge_by(joined, "expected", "common_name");
  if (route.merge == AdminMerge::kUniteByName) merge_by(joined, route.fields, "name");
  return json::serialize(joined);
}

}  // namespace osm::inline v1::net
