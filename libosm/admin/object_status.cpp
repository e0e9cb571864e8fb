#include "admin/object_status.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <chrono>
#include <utility>

#include "admin/admin_json.hpp"
#include "osm/control_plane.hpp"
#include "osm/object_store.hpp"
#include "osm/values/object_status.hpp"

namespace osm::inline v1::admin {
namespace {

namespace json = boost::json;

constexpr std::chrono::seconds kReadWithin{2};

Result<ObjectKey> object_of(const net::Request& request) {
  OSM_TRY(std::string kind, request.required("kind"));
  OSM_TRY(std::string name, request.required("name"));
  const auto ns = request.query.find("namespace");
  return ObjectKey{std::move(kind), ns == request.query.end() ? "" : ns->second, std::move(name)};
}

json::object to_json(const ObjectStatus& status) {
  json::array lagging;
  for (const ProxyLag& lag : status.lagging)
    lagging.push_back(json::object{{"workload", lag.workload.str()},
                                   {"uuid", lag.proxy.str()},
                                   {"refused", lag.refused},
                                   {"detail", lag.detail}});
  json::array absent;
  for (const WorkloadName& workload : status.not_connected) absent.emplace_back(workload.str());
  json::array problems;
  for (const Problem& problem : status.problems) problems.push_back(admin::to_json(problem));
  return {{"object", status.object.str()},  {"generation", status.generation},
          {"removed", status.removed},      {"phase", object_phase_text(status.phase)},
          {"concerned", status.concerned},  {"applied", status.applied},
          {"lagging", std::move(lagging)},  {"not_connected", std::move(absent)},
          {"problems", std::move(problems)}};
}

}  // namespace

net::Response object_status(const net::AdminApiOptions& options, const net::Request& request) {
  const Result<ObjectKey> object = object_of(request);
  if (!object.ok()) return net::error_response(object.error());
  if (options.store && !options.store->catch_up(kReadWithin))
    return net::error_response({ErrorCode::kUnavailable,
                                "the mesh's objects are being written, and not all read yet; ask "
                                "again"});
  const Result<ObjectStatus> status = options.control_plane.object_status(*object);
  if (!status.ok()) return net::error_response(status.error());
  return net::json_response(json::serialize(to_json(*status)) + '\n');
}

}  // namespace osm::inline v1::admin
