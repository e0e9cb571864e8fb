#include "kubernetes/client/api.hpp"

#include <boost/json.hpp>
#include <chrono>
#include <future>
#include <iterator>
#include <memory>
#include <utility>

#include "base/json.hpp"
#include "base/numbers.hpp"
#include "base/secret_json.hpp"
#include "kubernetes/client/resources.hpp"
#include "osm/certificate/secret_bytes.hpp"

namespace osm::inline v1::kubernetes {

std::string Resource::api_version() const {
  return group.empty() ? std::string(version) : std::string(group) + '/' + std::string(version);
}

std::string Resource::path(std::string_view ns, std::string_view name,
                           std::string_view subresource) const {
  std::string path = (group.empty() ? "/api/" : "/apis/") + api_version();
  if (namespaced && !ns.empty()) path.append("/namespaces/").append(ns);
  path.append("/").append(plural);
  if (!name.empty()) path.append("/").append(name);
  if (!subresource.empty()) path.append("/").append(subresource);
  return path;
}

Metadata metadata_of(const boost::json::object& object) {
  const boost::json::object& metadata = map_at(object, "metadata");
  return {text_at(metadata, "namespace"), text_at(metadata, "name"), text_at(metadata, "uid"),
          text_at(metadata, "resourceVersion")};
}

// API servers count versions up (KEP-5504). Others can only be compared for equality.
bool not_older(const std::string& have, const std::string& wanted) {
  const auto have_number = number_of<std::uint64_t>(have);
  const auto wanted_number = number_of<std::uint64_t>(wanted);
  return have_number && wanted_number ? *have_number >= *wanted_number : have == wanted;
}

void erase_data(boost::json::object& secret) {
  if (boost::json::value* const data = secret.if_contains("data")) erase_texts(*data);
}

boost::json::object new_object(const Resource& resource, const std::string& ns,
                               const std::string& name, boost::json::object labels) {
  return {{"apiVersion", resource.api_version()},
          {"kind", resource.kind},
          {"metadata", {{"namespace", ns}, {"name", name}, {"labels", std::move(labels)}}}};
}

Result<std::vector<boost::json::object>> list_all(Api& api, ListRequest request) {
  std::vector<boost::json::object> all;
  do {
    const auto answer = std::make_shared<std::promise<Result<ListPage>>>();
    auto waited = answer->get_future();
    const Subscription call = api.list(
        request, [answer](Result<ListPage> listed) { answer->set_value(std::move(listed)); });
    if (waited.wait_for(std::chrono::seconds(30)) != std::future_status::ready)
      return Error{ErrorCode::kDeadlineExceeded, "the API server did not list " +
                                                     std::string(request.resource.plural) +
                                                     " within half a minute"};
    OSM_TRY(ListPage page, waited.get());
    std::move(page.items.begin(), page.items.end(), std::back_inserter(all));
    request.continue_token = std::move(page.continue_token);
  } while (!request.continue_token.empty());
  return all;
}

Result<Metadata> patch_secret(Api& api, const boost::json::object& known,
                              boost::json::object change) {
  const auto [ns, name, uid, version] = metadata_of(known);
  boost::json::object& metadata = change["metadata"].as_object();
  metadata["uid"] = uid;
  metadata["resourceVersion"] = version;
  Patch patch{.type = PatchType::kMerge, .body = boost::json::serialize(change)};
  const EraseOnExit erased(patch.body);
  erase_data(change);
  OSM_TRY(boost::json::object written, api.patch(kSecrets, ns, name, patch));
  erase_data(written);
  return metadata_of(written);
}

}  // namespace osm::inline v1::kubernetes
