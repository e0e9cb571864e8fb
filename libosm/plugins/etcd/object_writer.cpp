// Objects as values of etcd. The version of an object is its key's mod_revision.
#include <boost/json.hpp>
#include <memory>
#include <optional>
#include <utility>

#include "base/base64.hpp"
#include "base/json.hpp"
#include "etcd/gateway.hpp"
#include "etcd/object_keys.hpp"
#include "etcd/object_table.hpp"
#include "osm/spec/etcd_store.hpp"

namespace osm::inline v1::etcd {
namespace {

namespace json = boost::json;

// etcd refuses requests of more than 1.5 MiB: https://etcd.io/docs/v3.4/dev-guide/limit/
constexpr std::size_t kMaxValue = 1024 * 1024;
constexpr std::size_t kMaxAnswer = 16 * 1024 * 1024;

class EtcdWriter final : public spec::ObjectWriter {
 public:
  EtcdWriter(const std::string& prefix, std::unique_ptr<Gateway> gateway)
      : keys_(prefix), gateway_(std::move(gateway)) {}

  Result<spec::StoredObject> read(const ObjectKey& key) override {
    OSM_TRY(const std::string path, path_of(key));
    OSM_TRY(const std::optional<Pair> pair, find(key, path));
    if (!pair) return spec::StoredObject{};
    return spec::StoredObject{std::to_string(pair->revision),
                              read_value(keys_, *pair, kinds_).object};
  }

  Result<std::string> write(const Object& object, const std::string& expected) override {
    OSM_TRY(const std::string path, path_of(object.key));
    const std::string value = json::serialize(with_version(*object.document, ""));
    if (value.size() > kMaxValue)
      return Error{ErrorCode::kTooLarge, object.key.str() + ": has more than " +
                                             std::to_string(kMaxValue) +
                                             " bytes as JSON, which etcd does not take"};
    return change(object.key, path, expected, value);
  }

  Status remove(const ObjectKey& key, const std::string& expected) override {
    OSM_TRY(const std::string path, path_of(key));
    const auto done = change(key, path, expected, std::nullopt);
    return done.ok() ? Status() : Status(done.error());
  }

 private:
  Result<std::string> path_of(const ObjectKey& key) const {
    auto path = keys_.key_of(key);
    if (path) return *std::move(path);
    return Error{ErrorCode::kInvalidArgument,
                 key.str() + ": its namespace or name is no DNS name (lower case, digits, '-')"};
  }

  // Result: nullopt: there is no such key.
  Result<std::optional<Pair>> find(const ObjectKey& key, const std::string& path) const {
    std::optional<Pair> found;
    const std::string body = json::serialize(json::object{{"key", base64(path)}});
    const Status asked = gateway_->post(Question{"kv/range", body, kMaxAnswer},
                                        [&](const json::object& answer) -> Status {
                                          found.reset();
                                          const json::array& pairs = list_at(answer, "kvs");
                                          if (pairs.empty()) return {};
                                          OSM_TRY(found, read_pair(pairs.front()));
                                          return {};
                                        });
    if (!asked.ok()) return asked.error().with_context(key.str());
    return found;
  }

  // Puts the value, or with nullopt removes the key. Result: the revision.
  Result<std::string> change(const ObjectKey& key, const std::string& path,
                             const std::string& expected,
                             const std::optional<std::string>& value) const {
    json::object what{{"key", base64(path)}};
    if (value) what["value"] = base64(*value);
    // A key that does not exist has the revision 0.
    const json::object unchanged{{"target", "MOD"},
                                 {"result", "EQUAL"},
                                 {"key", base64(path)},
                                 {"mod_revision", expected.empty() ? "0" : expected}};
    const json::object then{{value ? "request_put" : "request_delete_range", std::move(what)}};
    const std::string body = json::serialize(
        json::object{{"compare", json::array{unchanged}}, {"success", json::array{then}}});
    bool done = false, repeated = false;
    std::string revision;
    const Status asked = gateway_->post(
        Question{"kv/txn", body},
        [&](const json::object& answer) {
          done = bool_at(answer, "succeeded").value_or(false);
          revision = text_at(map_at(answer, "header"), "revision");
          return Status();
        },
        &repeated);
    if (!asked.ok()) return asked.error().with_context(key.str());
    if (done) return revision;
    if (repeated) {  // an endpoint whose answer was lost may have done it
      OSM_TRY(const std::optional<Pair> present, find(key, path));
      if (present && present->value == value) return std::to_string(present->revision);
      if (!present && !value) return revision;
    }
    return Error{ErrorCode::kConflict,
                 key.str() + ": was changed since it was read; read it again"};
  }

  const ObjectKeys keys_;
  const std::unique_ptr<Gateway> gateway_;
  const spec::Kinds& kinds_ = spec::mesh_kinds();
};

}  // namespace

Result<std::unique_ptr<spec::ObjectWriter>> make_object_writer(CaStoreOptions options) {
  const std::string prefix = options.key;
  OSM_TRY(auto gateway, Gateway::open(std::move(options)));
  return std::unique_ptr<spec::ObjectWriter>(
      std::make_unique<EtcdWriter>(prefix, std::move(gateway)));
}

}  // namespace osm::inline v1::etcd
