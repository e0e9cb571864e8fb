// Records as one value of etcd each. Their version is the key's mod_revision.
#include <boost/json.hpp>
#include <memory>
#include <utility>

#include "base/base64.hpp"
#include "base/json.hpp"
#include "etcd/gateway.hpp"
#include "osm/certificate/etcd_replicas.hpp"
#include "osm/spec/etcd_store.hpp"

namespace osm::inline v1::etcd {
namespace {

namespace json = boost::json;

class EtcdRecord final : public TextRecord {
 public:
  EtcdRecord(const std::string& what, const std::string& key, std::unique_ptr<Gateway> gateway)
      : key_(base64(key)),
        name_(what + " at " + gateway->name_of(key)),
        gateway_(std::move(gateway)) {}

  std::string name() const override { return name_; }

  Result<Text> load() override {
    Text stored;
    const Status read =
        gateway_->post("kv/range", json::serialize(json::object{{"key", key_}}),
                       [&](json::object& answer) -> Status {
                         const json::array& pairs = list_at(answer, "kvs");
                         if (pairs.empty()) return {};  // zero is left out
                         auto text = from_base64(text_at(pairs.front(), "value"));
                         if (!text) return not_etcd();
                         stored = {*std::move(text), text_at(pairs.front(), "mod_revision")};
                         return {};
                       });
    if (!read.ok()) return failed(read.error());
    return stored;
  }

  Status store(const Text& next) override {
    // A key that does not exist has the revision 0.
    const json::object unchanged{{"target", "MOD"},
                                 {"result", "EQUAL"},
                                 {"key", key_},
                                 {"mod_revision", next.version.empty() ? "0" : next.version}};
    const json::object put{{"request_put", {{"key", key_}, {"value", base64(next.text)}}}};
    const json::object body{{"compare", json::array{unchanged}}, {"success", json::array{put}}};
    bool stored = false;
    const Status done =
        gateway_->post("kv/txn", json::serialize(body), [&](const json::object& answer) {
          stored = bool_at(answer, "succeeded").value_or(false);
          return Status();
        });
    if (!done.ok()) return failed(done.error());
    if (!stored) return Error{ErrorCode::kConflict, name_ + ": is not what was read any more"};
    return {};
  }

 private:
  Error failed(const Error& error) const {
    Error out = error.with_context(name_);
    if (error.code != ErrorCode::kUnavailable && error.code != ErrorCode::kPermissionDenied)
      out.code = ErrorCode::kStorage;
    return out;
  }

  const std::string key_;
  const std::string name_;
  const std::unique_ptr<Gateway> gateway_;
};

Result<std::unique_ptr<TextRecord>> make_record(const std::string& what, std::string_view below,
                                                CaStoreOptions options) {
  const std::string key = options.key + std::string(below);
  OSM_TRY(auto gateway, Gateway::open(std::move(options)));
  return std::unique_ptr<TextRecord>(std::make_unique<EtcdRecord>(what, key, std::move(gateway)));
}

}  // namespace

Result<std::unique_ptr<TextRecord>> make_rotation_record(CaStoreOptions options) {
  return make_record("record of root rotations", "/rotation", std::move(options));
}

Result<std::unique_ptr<TextRecord>> make_join_record(CaStoreOptions options) {
  return make_record("tokens of machines", "/join-tokens", std::move(options));
}

Result<std::unique_ptr<TextRecord>> make_drain_record(CaStoreOptions options) {
  return make_record("drained machines", "/drained-machines", std::move(options));
}

Result<std::unique_ptr<TextRecord>> make_config_record(CaStoreOptions options) {
  return make_record("last MeshConfig", "/mesh-config", std::move(options));
}

}  // namespace osm::inline v1::etcd
