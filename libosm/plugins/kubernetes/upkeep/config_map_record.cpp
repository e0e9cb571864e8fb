// Records in ConfigMaps, for every daemon of the mesh.
#include <boost/json.hpp>
#include <utility>

#include "base/json.hpp"
#include "kubernetes/client/resources.hpp"
#include "kubernetes/upkeep/config_map_record.hpp"
#include "kubernetes/upkeep/labels.hpp"
#include "osm/kubernetes/upkeep.hpp"

namespace osm::inline v1::kubernetes {
namespace {

namespace json = boost::json;

constexpr const char* kRotationName = "osm-root-rotation";

class ConfigMapRecord final : public TextRecord {
 public:
  ConfigMapRecord(Api& api, std::string ns, const char* name)
      : api_(api), ns_(std::move(ns)), name_(name) {}

  std::string name() const override { return "ConfigMap " + ns_ + '/' + name_; }

  Result<Text> load() override {
    const auto present = api_.get(kConfigMaps, ns_, name_);
    if (present.ok())
      return Text{text_at(map_at(*present, "data"), kRecordKey), metadata_of(*present).version};
    if (present.error().code == ErrorCode::kNotFound) return Text{};
    return failed(present.error());
  }

  Status store(const Text& next) override {
    const auto written = next.version.empty() ? create(next) : replace(next);
    if (written.ok()) return {};
    const Error& error = written.error();
    // Another replica was first, or the ConfigMap was deleted.
    if (error.code == ErrorCode::kAlreadyExists || error.code == ErrorCode::kConflict ||
        (error.code == ErrorCode::kNotFound && !next.version.empty()))
      return Error{ErrorCode::kConflict, name() + ": is not what was read any more"};
    return failed(error);
  }

 private:
  Result<json::object> create(const Text& next) {
    json::object object = new_object(kConfigMaps, ns_, name_, name_label());
    object["data"] = json::object{{kRecordKey, next.text}};
    return api_.create(kConfigMaps, object);
  }

  Result<json::object> replace(const Text& next) {
    const json::object patch{{"metadata", {{"resourceVersion", next.version}}},
                             {"data", {{kRecordKey, next.text}}}};
    return api_.patch(kConfigMaps, ns_, name_,
                      {.type = PatchType::kMerge, .body = json::serialize(patch)});
  }

  Error failed(const Error& error) const {
    Error out = error.with_context(name());
    if (error.code == ErrorCode::kPermissionDenied) {
      out.message += "; let this daemon's ServiceAccount create configmaps in " + ns_ +
                     ", and get and patch the one named " + name_ +
                     " (the Role osm-controller of charts/osm does)";
    } else {
      const bool away =
          error.code == ErrorCode::kUnavailable || error.code == ErrorCode::kDeadlineExceeded;
      out.code = away ? ErrorCode::kUnavailable : ErrorCode::kStorage;
    }
    return out;
  }

  Api& api_;
  const std::string ns_;
  const std::string name_;
};

}  // namespace

std::unique_ptr<TextRecord> make_rotation_record(Cluster& cluster, std::string osm_namespace) {
  return std::make_unique<ConfigMapRecord>(cluster.api(), std::move(osm_namespace), kRotationName);
}

std::unique_ptr<TextRecord> make_mesh_config_record(Cluster& cluster, std::string osm_namespace) {
  return std::make_unique<ConfigMapRecord>(cluster.api(), std::move(osm_namespace),
                                           kLastConfigName);
}

std::unique_ptr<TextRecord> make_join_record(Cluster& cluster, std::string osm_namespace) {
  return std::make_unique<ConfigMapRecord>(cluster.api(), std::move(osm_namespace),
                                           "osm-join-tokens");
}

std::unique_ptr<TextRecord> make_drain_record(Cluster& cluster, std::string osm_namespace) {
  return std::make_unique<ConfigMapRecord>(cluster.api(), std::move(osm_namespace),
                                           "osm-drained-machines");
}

}  // namespace osm::inline v1::kubernetes
